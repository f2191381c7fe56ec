"""Six ways to spell torch.compile, and which calls each of them compiles."""

from __future__ import annotations

import copy
from typing import Any

import torch

from course.alice import Reader
from course.backend import CountingBackend
from helpers.text import Table

SPELLINGS = """
m = torch.compile(m, backend=counting)
m.compile(backend=counting)
for block in m.blocks: block.compile(backend=counting)
m.forward = torch.compile(m.forward, backend=counting)
m.generate = torch.compile(m.generate, backend=counting)
m = Decorated()
""".strip().split("\n")
STEPS = 3
CALLS = ("m(x)", "m.forward(x)", f"m.generate(x, {STEPS})", "copy.generate")


def table(model: Reader, x: torch.Tensor) -> Table:
    """Return the graphs that run in each of CALLS, for each spelling."""
    rows = [_row(spelling, model, x) for spelling in SPELLINGS]
    return Table.of(["graphs that run in", *CALLS], rows)


def _row(spelling: str, model: Reader, x: torch.Tensor) -> list[str]:
    torch.compiler.reset()
    counting = CountingBackend()

    class Decorated(type(model)):
        @torch.compile(backend=counting)
        def forward(self, text: torch.Tensor) -> torch.Tensor:
            return super().forward(text)

    def decorated() -> Reader:
        made = copy.deepcopy(model)
        made.__class__ = Decorated
        return made

    names: dict[str, Any] = {"torch": torch, "counting": counting}
    names |= {"m": copy.deepcopy(model), "Decorated": decorated}
    exec(spelling, names)
    m = names["m"]
    duplicate = copy.deepcopy(m).requires_grad_(False)
    for weight in duplicate.parameters():
        weight.zero_()
    calls = (
        lambda: m(x),
        lambda: m.forward(x),
        lambda: m.generate(x, STEPS),
        lambda: duplicate.generate(x, STEPS),
    )
    runs: list[Any] = []
    for call in calls:
        call()  # captures, if anything does
        counting.ran.clear()
        call()
        runs.append(len(counting.ran))
    # With all weights at zero, each letter is the first of the alphabet.
    if duplicate.generate(x, STEPS)[:, -STEPS:].any():
        runs[-1] = f"{runs[-1]}, old weights"
    shown = spelling.replace("backend=counting", "").replace(", )", ")")
    return [shown, *map(str, runs)]
