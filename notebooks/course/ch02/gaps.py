"""A timeline of one call, eager above compiled, from the profiler's events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import course.ch02.measuring  # noqa: F401  (the profiler is silent from here on)
from helpers.plots import COLOURS, QUIET, Picture, styled
from helpers.text import mark

_ONE_CALL = "one call"
_KERNEL = re.compile(r"(?:graph_\d+_)?(?:cpp|triton)_fused?_?")
_GUARDS = "TorchDynamo Cache Lookup"
_LOOKS = {  # kind: colour, hatch, words
    "operation": (COLOURS[0], "", "operation of eager, or library call"),
    "kernel": (COLOURS[1], "//", "generated kernel"),
    "guards": ("#BBBBBB", "..", "check of the guards"),
    "": ("#EEEEEE", "", "between: Python, dispatch, memory"),
}


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
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    axes = figure.subplots()
    for row, call in enumerate((eager, compiled)):
        _draw(axes, row, call, 100 / eager.length)
    handles = [
        Patch(facecolor=colour, hatch=hatch, label=words, edgecolor="#888888")
        for colour, hatch, words in _LOOKS.values()
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    axes.set_yticks([0, 1], ["eager", "compiled"])
    axes.set(ylim=(1.8, -0.4), xlabel="time, in % of eager's call (profiler on)")
    axes.grid(visible=False)
    return Picture(figure, _in_words(eager, compiled))


def _draw(axes: Any, row: int, call: Call, scale: float) -> None:
    """Draw one call as a line of bars, with their names below."""
    colour, _, _ = _LOOKS[""]
    whole = {"height": 0.5, "color": colour, "edgecolor": QUIET}
    axes.barh(row, call.length * scale, **whole)
    for number, bar in enumerate(call.bars):
        colour, hatch, _ = _LOOKS[bar.kind]
        left, width = bar.start * scale, (bar.end - bar.start) * scale
        look = {"color": colour, "hatch": hatch, "edgecolor": "white"}
        if width < 1:  # a white edge would cover it
            look = {"color": colour, "edgecolor": colour, "linewidth": 2}
        axes.barh(row, width, left=left, height=0.5, **look)
        middle = left + width / 2
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
