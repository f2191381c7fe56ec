"""Sentences of a book in batches: what padding computes for nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn

from helpers.plots import CEILING, COLOURS, QUIET, Picture, styled

BOOK = Path(__file__).parents[3] / "data" / "alice.txt"


def book() -> list[list[int]]:
    """Return the sentences of the book as numbers of words, from 1 on."""
    text = BOOK.read_text(encoding="ascii").lower()
    pieces = re.split(r"(?<=[.!?])\W+", text)
    words = [re.findall("[a-z']+", piece) for piece in pieces]
    known = {word: n for n, word in enumerate(sorted({*chain(*words)}), 1)}
    return [[known[word] for word in line] for line in words if line]


class Encoder(nn.Module):
    """One vector for each sentence: the mean over its words."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        self.word = nn.Embedding(words + 1, width)
        self.mix = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        real = (tokens != 0).unsqueeze(-1)
        h = self.word(tokens)
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
        h = nn.functional.gelu(self.mix(h))
        return (h * real).sum(1) / real.sum(1)


# ---------------------------------------------------- what padding computes

COUNTS = range(1, 13)


def bucketed(padded: Sequence[int], real: int, size: int = 8) -> float:
    """Return how many tokens are computed for each of *real* ones.

    *padded* has the edge of each sentence; those of one edge go in batches of *size*,
    of which the last is filled up with empty rows.
    """
    rows = Counter(padded)
    computed = sum(edge * size * -(-count // size) for edge, count in rows.items())
    return computed / real


@styled
def work_picture(
    curves: dict[str, list[float]], dynamic: dict[str, float], limit: int
) -> Picture:
    """Return a picture of work against the number of graphs."""
    figure = Figure(figsize=(9.5, 5.2), layout="constrained")
    axes = figure.subplots()
    inks = (("o-", COLOURS[0]), ("s-", COLOURS[1]), ("^-", CEILING))
    alt = "Computed tokens for each real one, against the number of graphs."
    for (name, curve), (shape, ink) in zip(curves.items(), inks, strict=True):
        axes.plot(
            COUNTS[: len(curve)],
            curve,
            shape,
            color=ink,
            label=f"buckets, {name}",
        )
        some = [
            f"{k} graphs {curve[k - 1]:.2f}" for k in (1, 4, 8, 12) if k <= len(curve)
        ]
        alt += f" Buckets, {name}: {', '.join(some)}."
    for (name, value), shape in zip(dynamic.items(), "*PX", strict=False):
        axes.plot(1, value, f"k{shape}", ms=14, ls="", label=f"dynamic, {name}")
        alt += f" Dynamic, {name}: 1 graph, {value:.2f}."
    axes.axvline(limit, color=QUIET, ls=":")
    axes.text(limit + 0.1, 8, "recompile limit", color=QUIET)
    axes.set_yscale("log", base=2)
    axes.set_title("what padding costs, and how many graphs it saves")
    axes.set(xticks=COUNTS, xlabel="graphs", ylabel="computed / real tokens")
    axes.set_yticks([1, 2, 4, 8])
    axes.yaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside right upper")
    return Picture(figure, f"{alt} The recompile limit is {limit} graphs.")
