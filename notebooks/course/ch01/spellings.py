"""Six ways to spell torch.compile, and which calls each of them compiles."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch

from course.alice import Reader
from course.backend import CountingBackend
from helpers.plots import COLOURS, Picture, styled

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


@dataclass(frozen=True)
class Row:
    """What one spelling does."""

    spelling: str
    runs: tuple[int, ...]  # the graphs that run in each of CALLS
    own_weights: bool  # whether a deep copy computes with its own
    key: str  # the first key of the checkpoint


def rows(model: Reader, x: torch.Tensor) -> list[Row]:
    """Return what each spelling does to a copy of model, called with x."""
    return [_row(spelling, model, x) for spelling in SPELLINGS]


def _row(spelling: str, model: Reader, x: torch.Tensor) -> Row:
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
    return Row(spelling, tuple(runs), bool(own), next(iter(m.state_dict())))


@styled
def draw(found: list[Row]) -> Picture:
    """Return a grid: a row for each spelling, a column for each call."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(12, 5), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(-2.75, len(CALLS)), ylim=(len(found), -0.9))
    for column, call in enumerate(CALLS):
        style = {"family": "monospace", "size": 12, "ha": "center"}
        axes.text(column + 0.5, -0.25, call, **style)
    words = []
    for y, row in enumerate(found):
        shown = row.spelling.replace(", backend=counting", "")
        shown = shown.replace("backend=counting", "")
        shown = shown.replace(": block", ":\n    block")
        style = {"family": "monospace", "size": 12, "va": "center"}
        axes.text(-2.75, y + 0.5, shown, **style)
        for column, runs in enumerate(row.runs):
            strange = column == len(CALLS) - 1 and not row.own_weights
            hatch = "//" if runs == 0 else ""
            colour = COLOURS[0] if runs else COLOURS[1]
            alpha = 0.85 if not strange else 0.45
            box = Rectangle((column + 0.03, y + 0.06), 0.94, 0.88, facecolor=colour)
            box.set(hatch=hatch, edgecolor="white", alpha=alpha)
            axes.add_patch(box)
            text = {0: "eager", 1: "1 graph"}.get(runs, f"{runs} graphs")
            text += "\nold weights" if strange else ""
            style = {"color": "white", "size": 13, "weight": "bold"}
            style |= {"ha": "center", "va": "center"}
            if hatch or strange:
                style["bbox"] = {"fc": "#222222", "ec": "none", "pad": 3}
            axes.text(column + 0.5, y + 0.5, text, **style)
        counts = zip(CALLS, row.runs, strict=True)
        words.append(
            f"{' '.join(shown.split())}: "
            + ", ".join(f"{call} {runs}" for call, runs in counts)
            + (" with the weights of the original" * (not row.own_weights))
        )
    return Picture(figure, f"Graphs that run. {'; '.join(words)}.")
