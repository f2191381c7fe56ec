"""What one call of a real model launches, in eager and compiled."""

from __future__ import annotations

from typing import NamedTuple

import torch

from course.ch28.fixed_detector import FixedDetector
from course.models import build
from course.values import right_answer
from helpers import eager_bytes, session
from helpers.codegen import lowered

MODELS = ("bert", "resnet", "sage", "detector", "ppo")
LIBRARY = ("mm", "convolution", "attention")


class Launches(NamedTuple):
    """One call: its launches, and whether float64 agrees."""

    model: str
    eager: dict[str, int]  # launches of libraries, and all others
    compiled: dict[str, int]  # launches of libraries, and of own kernels
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
    rest = [op for op, _ in moved if not from_library(op)]
    return Launches(
        name,
        {"library": len(moved) - len(rest), "other": len(rest)},
        {"library": len(launched) - len(own), "own": len(own)},
        right,
        tuple(k.ops for k in own),
    )
