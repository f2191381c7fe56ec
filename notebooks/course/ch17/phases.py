"""Where the seconds of a compile go, and whether a graph runs at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from course.backend import CountingBackend
from helpers.plots import Picture, styled
from helpers.text import mark, seconds

# The profiler would write a report of its own below a cell.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

# Each lies inside the one before: the name, and the field of the record.
NESTED = {
    "Dynamo": "dynamo",
    "AOTAutograd": "aot_autograd",
    "Inductor": "inductor",
    "writing and building": "inductor_code_gen",
}
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00")


def phases(record: Any) -> dict[str, float]:
    """Return the seconds that each phase of a compile took for itself."""
    field = "{}_cumulative_compile_time_us"
    whole = [
        (getattr(record, field.format(name)) or 0) / 1e6 for name in NESTED.values()
    ]
    inner = [*whole[1:], 0.0]
    return {
        name: max(0.0, mine - within)
        for name, mine, within in zip(NESTED, whole, inner, strict=True)
    }


@styled
def picture(parts: dict[str, float]) -> Picture:
    """Return the phases of a first call as one bar."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.6), layout="constrained")
    axes = figure.subplots()
    begin = 0.0
    for (name, took), colour in zip(parts.items(), _COLOURS, strict=True):
        axes.barh(0, took, left=begin, color=colour, label=name)
        begin += took
    axes.set(xlabel="seconds", yticks=[], xlim=(0, begin))
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)
    words = ", ".join(f"{name} {mark(seconds(t))}" for name, t in parts.items())
    return Picture(figure, f"The phases of a first call: {words}.")


def graphs_run(function: Callable[..., Any], *inputs: Any, **options: Any) -> int:
    """Return how many graphs a call of the compiled function runs.

    The backend counts when a graph is *run*, not when it is captured.
    """
    backend = CountingBackend()
    torch.compiler.reset()
    torch.compile(function, backend=backend, **options)(*inputs)
    return len(backend.ran)
