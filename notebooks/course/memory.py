"""Memory over one training step, counted from allocations, not by a clock.

    recording = record(step)           one step, under torch's profiler
    memory_picture({"eager": recording, ...})

The curve begins at 0: what was there before the step, weights and the state of
the optimizer, is not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure
from torch.profiler import ProfilerActivity, profile

from helpers.plots import CEILING, COLOURS, Picture, styled
from helpers.text import size

PHASES = ("forward", "backward", "optimizer")
LINES = ("-", "--", ":", "-.")
INK = (*COLOURS, "#444444", CEILING)


@dataclass(frozen=True)
class Recording:
    """Live bytes after each allocation and each free, phase by phase."""

    live: dict[str, list[int]]

    @property
    def peak(self) -> int:
        """The most bytes at any time of the step."""
        return max(max(values) for values in self.live.values())

    def at_end_of(self, phase: str) -> int:
        """Return the bytes that are live when *phase* ends."""
        return self.live[phase][-1]


def record(step: Callable[[], None]) -> Recording:
    """Run *step* under the profiler, and return its memory.

    The step marks its phases by ``torch.profiler.record_function``.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    events = sorted(_events(seen), key=lambda event: event[0])
    live, now, phase = {name: [0] for name in PHASES}, 0, PHASES[0]
    for _, what in events:
        if isinstance(what, str):
            phase = what
            live[phase] = [now]
        else:
            now += what
            live[phase].append(now)
    return Recording(live)


def _events(seen: profile) -> list[tuple[int, int | str]]:
    """Return when a phase began, and when memory came or went."""
    found: list[tuple[int, int | str]] = []
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            found.append((event.start_ns(), event.nbytes()))
        elif event.name() in PHASES:
            found.append((event.start_ns(), event.name()))
    return found


@styled
def memory_picture(steps: dict[str, Recording]) -> Picture:
    """Return a picture of the memory of several steps, one curve for each."""
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True, width_ratios=[3, 3, 2])
    for axes, phase in zip(panels, PHASES, strict=True):
        for number, (name, one) in enumerate(steps.items()):
            values = [value / 2**20 for value in one.live[phase]]
            along = [i / max(1, len(values) - 1) for i in range(len(values))]
            look = {"ls": LINES[number], "color": INK[number], "lw": 2.5}
            label = name if phase == PHASES[0] else None
            axes.step(along, values, where="post", label=label, **look)
        axes.set(title=phase, xticks=[], xlim=(0, 1))
        axes.set_xlabel("first to last allocation")
    panels[0].set(ylabel="MiB above what stays")
    panels[0].set_ylim(bottom=0)
    figure.suptitle("memory over one step")
    figure.legend(loc="outside lower left", ncols=len(steps))
    rows = []
    for name, one in steps.items():
        ends = [f"{size(one.at_end_of(p))} after {p}" for p in PHASES]
        rows.append(f"{name}: {', '.join(ends)}, peak {size(one.peak)}")
    return Picture(figure, f"Memory over one step. {'; '.join(rows)}.")
