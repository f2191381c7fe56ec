"""What ran in a call, in time: graphs, and operations outside of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.profiler import ProfilerActivity, profile

from helpers.plots import COLOURS, Picture, styled
from helpers.text import mark

GRAPH = "## Call CompiledFxGraph"  # how the profiler names Inductor's graphs


@dataclass(frozen=True)
class Span:
    """From when to when something ran, in microseconds of the call."""

    start: float
    end: float


@dataclass(frozen=True)
class Lane:
    """The graphs that ran in a call, and the operations outside of them."""

    graphs: list[Span]
    eager: list[Span]


def watched(call: Callable[[], Any], calls: int = 8) -> Lane:
    """Return what the profiler saw in the quickest of so many calls."""
    call()
    lanes = [_lane(call) for _ in range(calls)]
    return min(lanes, key=lambda lane: max(s.end for s in lane.eager))


def _lane(call: Callable[[], Any]) -> Lane:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    wanted = [e for e in seen.events() if e.name.startswith((GRAPH, "aten::"))]
    wanted.sort(key=lambda event: event.time_range.start)
    begin, until = wanted[0].time_range.start, 0.0
    lane = Lane([], [])
    for event in wanted:
        start, end = event.time_range.start, event.time_range.end
        if start >= until:  # not inside of what began before
            until = end
            is_graph = event.name.startswith(GRAPH)
            spans = lane.graphs if is_graph else lane.eager
            spans.append(Span(start - begin, end - begin))
    return lane


@styled
def draw(lanes: dict[str, Lane]) -> Picture:
    """Return the lanes below one another, on one scale of time."""
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(11, 0.8 + 1.25 * len(lanes)), layout="constrained"
    )
    axes = figure.subplots()
    words = []
    for row, (name, lane) in enumerate(lanes.items()):
        for spans, colour, height in (
            (lane.eager, COLOURS[1], 0.3),
            (lane.graphs, COLOURS[0], 0.5),
        ):
            bars = [(s.start, max(s.end - s.start, 1)) for s in spans]
            axes.broken_barh(
                bars, (row - height / 2, height), facecolor=colour
            )
        beside = {"xytext": (0, 24), "textcoords": "offset points"}
        axes.annotate(name, (0, row), family="monospace", size=14, **beside)
        words.append(
            f"{name}: graphs that ran {len(lane.graphs)}, "
            f"operations outside of them {mark(len(lane.eager))}."
        )
    handles = [
        axes.bar(0, 0, color=COLOURS[0]),
        axes.bar(0, 0, color=COLOURS[1]),
    ]
    names = ("a graph", "an operation outside of any graph")
    figure.legend(handles, names, loc="outside lower left", ncols=2)
    axes.set(yticks=[], ylim=(len(lanes) - 0.6, -0.75))
    axes.set_xlabel("time in the call (µs, while the profiler watches)")
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    return Picture(figure, " ".join(words))
