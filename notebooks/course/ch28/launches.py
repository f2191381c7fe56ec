"""What one call of a real model launches, in eager and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from course.ch28.fixed_detector import FixedDetector
from course.drawing import BLUE, VERMILION, bars
from course.models import build
from course.values import right_answer
from helpers import eager_bytes, session
from helpers.codegen import lowered
from helpers.plots import Picture
from helpers.text import Table, mark, size

MODELS = ("bert", "resnet", "sage", "detector", "ppo")
LIBRARY = ("mm", "convolution", "attention")


class Launches(NamedTuple):
    """One call: launches, bytes, and whether float64 agrees."""

    model: str
    eager: dict[str, int]  # launches of libraries, and all others
    compiled: dict[str, int]  # launches of libraries, and of own kernels
    outside: tuple[int, int]  # bytes outside of libraries, eager and compiled
    right: bool
    own: tuple[tuple[str, ...], ...]  # what each own kernel computes


def from_library(name: str) -> bool:
    """Return whether it is a matrix product, convolution or attention."""
    return any(word in name.rpartition(".")[2] for word in LIBRARY)


@torch.no_grad()
def launches_of(name: str) -> Launches:
    """Compile one call of the model *name* with Inductor, and judge it."""
    _, module, (call, *_) = build(name)
    if name == "detector":
        module = FixedDetector(module)
    torch.compiler.reset()
    with session.undisturbed(module), lowered() as launched:
        compiled = torch.compile(module, backend=session.inductor())
        answer = compiled(**call)
    torch.compiler.reset()
    right = right_answer(module, answer, **call)
    moved = eager_bytes(module, kwargs=call).calls
    own = [k for k in launched if k.language != "library"]
    rest = [n for op, n in moved if not from_library(op)]
    return Launches(
        name,
        {"library": len(moved) - len(rest), "other": len(rest)},
        {"library": len(launched) - len(own), "own": len(own)},
        (sum(rest), sum(k.bytes for k in own)),
        right,
        tuple(k.ops for k in own),
    )


def launch_table(found: Sequence[Launches]) -> Table:
    """Return launches and bytes of each model."""
    lines = []
    for r in found:
        counts = *r.eager.values(), *r.compiled.values()
        moved = " → ".join(map(size, r.outside))
        lines.append((r.model, *map(mark, counts), mark(moved)))
    names = "model", "eager: library", "others", "compiled: library"
    last = "own kernels", "bytes outside of libraries"
    return Table.of((*names, *last), lines)


def launch_bars(found: Sequence[Launches]) -> Picture:
    """Return two bars for each model: its launches in eager, and compiled."""
    looks = {
        "from a library": BLUE,
        "all others: own kernels, when compiled": VERMILION,
    }
    sides = {
        f"{r.model}, {side}": getattr(r, side).values()
        for r in found
        for side in ("eager", "compiled")
    }
    said = [
        f"{r.model}: eager {mark(sum(r.eager.values()))}, of them "
        f"{mark(r.eager['library'])} of libraries; compiled "
        f"{mark(sum(r.compiled.values()))}, "
        f"of them {mark(r.compiled['library'])}"
        for r in found
    ]
    return bars(
        {name: zip(looks, counts, strict=True) for name, counts in sides.items()},
        looks,
        ends=[str(sum(counts)) for counts in sides.values()],
        unit="launches in one call",
        title="what compiling leaves to launch",
        alt=f"Launches in one call. {'. '.join(said)}.",
        size=(10, 1.5 + 0.4 * len(sides)),
    )
