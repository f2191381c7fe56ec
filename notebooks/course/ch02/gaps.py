"""A timeline of one call, eager above compiled, from the profiler's events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from course.drawing import BLUE, VERMILION, Look, Piece, bars
from helpers.plots import QUIET, Picture, styled
from helpers.text import mark

_ONE_CALL = "one call"
_KERNEL = re.compile(r"(?:graph_\d+_)?(?:cpp|triton)_fused?_?")
_GUARDS = "TorchDynamo Cache Lookup"
_BETWEEN = "between: Python, dispatch, memory"
_LOOKS = {
    "operation of eager, or library call": replace(BLUE, height=0.5),
    "generated kernel": replace(VERMILION, height=0.5),
    "check of the guards": Look("#BBBBBB", "..", height=0.5),
    _BETWEEN: Look("#EEEEEE", edge=QUIET, height=0.5),
}
_KINDS = dict(zip(("operation", "kernel", "guards"), _LOOKS, strict=False))


@dataclass(frozen=True)
class Bar:
    """One piece of work in a call, and its microseconds from the start."""

    name: str
    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class Call:
    """One call as the profiler saw it; its length is in microseconds."""

    length: float
    bars: tuple[Bar, ...]

    def seen(self, kind: str) -> list[Bar]:
        """Return the bars of one kind: operation, kernel or guards."""
        return [bar for bar in self.bars if bar.kind == kind]

    @property
    def gaps(self) -> float:
        """Return the microseconds in which no operation and no kernel ran."""
        work = [bar.end - bar.start for bar in self.bars if bar.kind != "guards"]
        return self.length - sum(work)


def labelled(f: Callable[..., Any]) -> Callable[..., Any]:
    """Compile f so that the profiler shows each generated kernel by name."""
    return torch.compile(f, options={"cpp.enable_kernel_profile": True})


def profiled(f: Callable[..., Any], *inputs: Any, calls: int = 20) -> Call:
    """Return the shortest of some calls: the one that was disturbed least.

    They run on one thread, so that no thread waits for another.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(3):
            f(*inputs)
        with profile(activities=[ProfilerActivity.CPU]) as run:
            for _ in range(calls):
                with record_function(_ONE_CALL):
                    f(*inputs)
    finally:
        torch.set_num_threads(threads)
    events = list(run.events())
    wholes = [event for event in events if event.name == _ONE_CALL]
    whole = min(wholes, key=lambda event: event.time_range.elapsed_us())
    begin, end = whole.time_range.start, whole.time_range.end
    bars = []
    for event in events:
        start, stop = event.time_range.start, event.time_range.end
        if begin <= start and stop <= end and (known := _known(event)):
            bars.append(Bar(*known, start - begin, stop - begin))
    return Call(end - begin, tuple(sorted(bars, key=lambda bar: bar.start)))


def _known(event: Any) -> tuple[str, str] | None:
    """Return the short name and the kind of an event, or None for no bar."""
    if event.name == _GUARDS:
        return "guards", "guards"
    if match := _KERNEL.match(event.name):
        return re.sub(r"_\d+$", "", event.name[match.end() :]), "kernel"
    if not event.name.startswith("aten::") or _inside_of_an_operation(event):
        return None
    return event.name.removeprefix("aten::"), "operation"


def _inside_of_an_operation(event: Any) -> bool:
    parent = event.cpu_parent
    while parent is not None and not parent.name.startswith("aten::"):
        parent = parent.cpu_parent
    return parent is not None


@styled
def timeline(eager: Call, compiled: Call) -> Picture:
    """Return a picture of both calls; the axis is in shares of eager's."""
    calls, scale = {"eager": eager, "compiled": compiled}, 100 / eager.length
    picture = bars(
        {name: _pieces(call, scale) for name, call in calls.items()},
        _LOOKS,
        unit="time, in % of eager's call (profiler on)",
        title="what a call spends its time on",
        alt=_in_words(eager, compiled),
        legend="outside upper left",
        size=(11, 4.6),
    )
    [axes] = picture.figure.axes
    axes.set_ylim(1.8, -0.4)
    axes.grid(visible=False)
    for piece in axes.patches:
        if piece.get_width() < 1:  # a white edge would cover it
            piece.set(edgecolor=piece.get_facecolor(), linewidth=2)
    for row, call in enumerate(calls.values()):
        _name(axes, row, call, scale)
    return picture


def _pieces(call: Call, scale: float) -> list[Piece]:
    """Return a call as pieces: the bars, on one for the whole call."""
    pieces = [Piece(_BETWEEN, call.length * scale)]
    for bar in call.bars:
        length = (bar.end - bar.start) * scale
        pieces.append(Piece(_KINDS[bar.kind], length, start=bar.start * scale))
    return pieces


def _name(axes: Any, row: int, call: Call, scale: float) -> None:
    """Write the names of a call's bars below them, every other one lower."""
    for number, bar in enumerate(call.bars):
        middle = (bar.start + bar.end) / 2 * scale
        axes.annotate(
            bar.name,
            (middle, row + 0.25),
            (middle, row + 0.34 + 0.16 * (number % 2)),
            fontsize=11,
            ha="center",
            va="top",
            arrowprops={"arrowstyle": "-", "color": QUIET},
        )


def _in_words(eager: Call, compiled: Call) -> str:
    def share(value: float) -> str:
        return mark(f"{100 * value / eager.length:.0f} %")

    parts = ["One call as a line of bars, from left to right"]
    for side, call in (("eager", eager), ("compiled", compiled)):
        parts.append(f"{side}: {', '.join(bar.name for bar in call.bars)}")
    parts.append(
        f"In shares of eager's call, compiled takes {share(compiled.length)}, "
        f"and no operation runs for {share(eager.gaps)} of eager and "
        f"{share(compiled.gaps)} of compiled"
    )
    return ". ".join(parts) + "."
