"""What ran in a call, in order: graphs, and operations outside of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

from course.drawing import BLUE, Look, Piece, bars
from helpers.plots import COLOURS, Picture, styled
from helpers.text import mark

GRAPH = "## Call CompiledFxGraph"  # how the profiler names Inductor's graphs
_LOOKS = {
    "a graph": BLUE,
    "an operation outside of any graph": Look(COLOURS[1], line=0.4, height=0.5),
}
# A graph is as wide as many operations, so that it can be seen between them.
_GRAPH, _OUTSIDE = map(Piece, _LOOKS, (28, 1))


def watched(call: Callable[[], Any]) -> list[bool]:
    """Return what the profiler saw in a second call of *call*, in order.

    True is a graph, and False an operation outside of any graph.
    """
    call()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    wanted = [e for e in seen.events() if e.name.startswith((GRAPH, "aten::"))]
    wanted.sort(key=lambda event: event.time_range.start)
    lane, until = [], 0.0
    for event in wanted:
        if event.time_range.start >= until:  # not inside of what began before
            until = event.time_range.end
            lane.append(event.name.startswith(GRAPH))
    return lane


@styled
def draw(lanes: dict[str, list[bool]]) -> Picture:
    """Return the lanes below one another: a piece for each thing that ran."""
    rows, words = {}, []
    for name, lane in lanes.items():
        rows[name] = [_GRAPH if is_graph else _OUTSIDE for is_graph in lane]
        words.append(
            f"{name}: graphs that ran {sum(lane)}, operations outside of "
            f"them {mark(len(lane) - sum(lane))}."
        )
    unit = "what ran, in order (not to scale of time)"
    title = "the operations of a call, in a graph or outside of any"
    told = " ".join(words)
    picture = bars(rows, _LOOKS, unit=unit, title=title, alt=told, above=True)
    [axes] = picture.figure.axes
    axes.set_xticks([])
    for name in axes.texts:
        name.set_family("monospace")
    return picture
