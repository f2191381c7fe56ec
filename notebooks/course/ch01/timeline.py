"""What ran in a call, in order: graphs, and operations outside of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

from helpers.plots import COLOURS, Picture, styled
from helpers.text import mark

GRAPH = "## Call CompiledFxGraph"  # how the profiler names Inductor's graphs
_WIDE = 28  # a graph, where an operation has the width of one


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
    from matplotlib.figure import Figure

    size = 11, 0.9 + 1.15 * len(lanes)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    words = []
    for row, (name, lane) in enumerate(lanes.items()):
        start = 0
        for is_graph in lane:
            width, height = (_WIDE, 0.55) if is_graph else (1, 0.35)
            style = {"color": COLOURS[not is_graph], "edgecolor": "white"}
            style["linewidth"] = 0.4
            axes.barh(row, width, height, left=start, **style)
            start += width
        beside = {"xytext": (0, 30), "textcoords": "offset points"}
        axes.annotate(name, (0, row), family="monospace", size=14, **beside)
        words.append(
            f"{name}: graphs that ran {sum(lane)}, operations outside of "
            f"them {mark(len(lane) - sum(lane))}."
        )
    handles = [axes.bar(0, 0, color=colour) for colour in COLOURS]
    names = ("a graph", "an operation outside of any graph")
    figure.legend(handles, names, loc="outside lower left", ncols=2)
    axes.set(yticks=[], xticks=[], ylim=(len(lanes) - 0.6, -0.75))
    axes.set_xlabel("what ran, in order (not to scale of time)")
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    return Picture(figure, " ".join(words))
