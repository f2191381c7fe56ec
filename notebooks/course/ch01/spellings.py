"""Six ways to spell torch.compile, and which calls each of them compiles."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

import torch

from course.alice import Reader
from course.backend import CountingBackend
from course.drawing import BLUE, VERMILION, Cell, Look, grid
from helpers.plots import Picture
from helpers.text import count

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
_LOOKS = {
    "graphs": BLUE,
    "eager": VERMILION,
    "old weights": Look("#89BBDC", "..", ink="black"),
}


@dataclass(frozen=True)
class Spelling:
    """What one spelling does."""

    text: str
    runs: tuple[int, ...]  # the graphs that run in each of CALLS
    own_weights: bool  # whether a deep copy computes with its own


def rows(model: Reader, x: torch.Tensor) -> list[Spelling]:
    """Return what each spelling does to a copy of model, called with x."""
    return [_row(spelling, model, x) for spelling in SPELLINGS]


def _row(spelling: str, model: Reader, x: torch.Tensor) -> Spelling:
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
    runs = []
    for call in calls:
        call()  # captures, if anything does
        counting.ran.clear()
        call()
        runs.append(len(counting.ran))
    # With all weights at zero, each letter is the first of the alphabet.
    own = not duplicate.generate(x, STEPS)[:, -STEPS:].any()
    return Spelling(spelling, tuple(runs), bool(own))


def draw(found: list[Spelling]) -> Picture:
    """Return a grid: a row for each spelling, a column for each call."""
    cells, words = {}, []
    for row in found:
        shown = re.sub(r"(, )?backend=counting", "", row.text)
        cells[shown.replace(": block", ":\n    block")] = {
            call: _cell(runs, call == CALLS[-1] and not row.own_weights)
            for call, runs in zip(CALLS, row.runs, strict=True)
        }
        counts = zip(CALLS, row.runs, strict=True)
        told = f"{shown}: " + ", ".join(f"{call} {runs}" for call, runs in counts)
        if not row.own_weights:
            told += " with the weights of the original"
        words.append(told)
    alt = f"Graphs that run. {'; '.join(words)}."
    title = "graphs that run in each call"
    picture = grid(cells, _LOOKS, alt=alt, title=title, size=(12, 5.3))
    [axes] = picture.figure.axes
    axes.tick_params(labelsize=12, labelfontfamily="monospace")
    axes.set_yticks(axes.get_yticks(), list(cells), ha="left")
    axes.tick_params(axis="y", pad=290)
    return picture


def _cell(runs: int, strange: bool) -> Cell:
    if not runs:
        return Cell("eager", "eager")
    text = count(runs, "graph")
    if strange:
        return Cell("old weights", f"{text}\nold weights")
    return Cell("graphs", text)
