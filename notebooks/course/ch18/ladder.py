"""A bug in each layer, the backends that reach it, and the picture of both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._functorch import config as autograd_config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import lowerings

from course import bugs
from course.bugs import planted_in
from course.drawing import CROSS, DOT, grid
from course.lowering import past_the_caches
from course.planted import lowered
from helpers.plots import COLOURS, Picture

aten = torch.ops.aten
LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


BUGS: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    "a constant, behind Dynamo": lambda: planted_in(OutputGraph, bugs.other_constant),
    "a sign, in the joint graph": lambda: autograd_config.patch(
        joint_custom_pass=lambda joint, inputs: bugs.negated(joint)
    ),
    "gelu's decomposition": lambda: planted_in(select_decomp_table(), bugs.other_gelu),
    "erf's lowering": lambda: planted_in(lowerings, bugs.tanh_for_erf),
    "relu's lowering": lambda: lowered(
        aten.relu.default, lambda true, x: lowerings[aten.abs.default](x)
    ),
    "relu's lowering raises": lambda: planted_in(lowerings, bugs.cannot_lower, "relu"),
    "the result's sign, in the joint graph": lambda: autograd_config.patch(
        joint_custom_pass=lambda joint, inputs: bugs.negated(joint, place=0)
    ),
}


@contextlib.contextmanager
def planted(bug: str) -> Iterator[None]:
    """Plant a bug; take it out, and all that was compiled with it."""
    with past_the_caches(), BUGS[bug]():
        yield


def picture(backends: Sequence[str], verdicts: dict[str, Sequence[bool]]) -> Picture:
    """Return the ladder: for each bug, which backends are right."""
    words = "; ".join(
        f"{bug}: wrong on {', '.join(_wrong(backends, right)) or 'none'}"
        for bug, right in verdicts.items()
    )
    drawn = grid(
        {
            bug: {
                backend: "right" if fine else "wrong"
                for backend, fine in zip(backends, right, strict=True)
            }
            for bug, right in verdicts.items()
        },
        {"right": DOT, "wrong": CROSS},
        legend="outside lower left",
        title="which backend shows which planted bug",
        alt="Planted bugs and the backends that show them, the first in a box. "
        f"{words}.",
        size=(11, 1.7 + 0.75 * len(verdicts)),
    )
    [axes] = drawn.figure.axes
    axes.grid(visible=True, axis="y", color="#E5E5E5")
    for row, right in enumerate(verdicts.values()):
        if False in right:
            axes.add_patch(_ring(list(right).index(False), row))
    return drawn


def _wrong(backends: Sequence[str], right: Sequence[bool]) -> list[str]:
    return [b for b, fine in zip(backends, right, strict=True) if not fine]


def _ring(column: int, row: int) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (column - 0.22, row - 0.36),
        0.44,
        0.72,
        boxstyle="round,pad=0,rounding_size=0.1",
        fill=False,
        edgecolor=COLOURS[1],
        linewidth=2,
    )
