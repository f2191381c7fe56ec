"""Sentences of a book in batches: what padding computes for nothing."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn

from helpers.plots import CEILING, COLOURS, QUIET, Picture, styled

BOOK = Path(__file__).parents[3] / "data" / "alice.txt"
Sentence = list[int]
Batches = list[list[Sentence]]


def book() -> list[Sentence]:
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


# ------------------------------------------------------------------ batches


def in_order(sentences: Sequence[Sentence], size: int = 8) -> Batches:
    """Cut the sentences into batches as they come."""
    starts = range(0, len(sentences), size)
    return [list(sentences[n : n + size]) for n in starts]


def by_length(
    sentences: Sequence[Sentence], size: int = 8, window: int | None = None
) -> Batches:
    """Sort by length, all of them or each *window*, and cut into batches."""
    window = window or len(sentences)
    starts = range(0, len(sentences), window)
    parts = [sorted(sentences[n : n + window], key=len) for n in starts]
    return [batch for part in parts for batch in in_order(part, size)]


def in_buckets(
    sentences: Sequence[Sentence], edges: Sequence[int], size: int = 8
) -> list[tuple[int, list[Sentence]]]:
    """Put each sentence to its edge, and cut each bucket into batches."""
    buckets: dict[int, list[Sentence]] = {edge: [] for edge in edges}
    for sentence in sentences:
        buckets[edges[bisect_left(edges, len(sentence))]].append(sentence)
    return [
        (edge, batch)
        for edge, bucket in buckets.items()
        for batch in in_order(bucket, size)
    ]


def padded(
    batch: Sequence[Sentence], edge: int | None = None, rows: int = 0
) -> torch.Tensor:
    """Return a batch as a tensor, padded with 0 to an edge or its longest.

    With *rows*, a smaller batch is filled up with empty sentences.
    """
    edge = edge or max(map(len, batch))
    lines = [*batch, *[[]] * (rows - len(batch))]
    return torch.tensor([line + [0] * (edge - len(line)) for line in lines])


def work(tensors: Iterable[torch.Tensor]) -> float:
    """Return how many tokens are computed for each one that is real."""
    tensors = list(tensors)
    real = sum(int((tokens != 0).sum()) for tokens in tensors)
    return sum(tokens.numel() for tokens in tensors) / real


def chosen_edges(lengths: Sequence[int], most: int, last: int) -> list[int]:
    """Return at most *most* edges, each the one that saves most padding."""
    edges = [last]
    while len(edges) < min(most, len({*lengths, last})):
        tries = [sorted({*edges, n}) for n in set(lengths)]
        edges = min(tries, key=partial(_padded_length, lengths))
    return edges


def _padded_length(lengths: Sequence[int], edges: Sequence[int]) -> int:
    return sum(edges[bisect_left(edges, n)] for n in lengths)


# -------------------------------------------------------------- the picture

COUNTS = range(1, 13)


def bucket_curves(
    seen: Sequence[Sentence], to_come: Sequence[Sentence]
) -> dict[str, list[float]]:
    """Return the work for 1 to 12 buckets, with edges from three recipes.

    Edges are chosen on the sentences *seen*, and counted on those *to_come*.
    """
    last = max(map(len, [*seen, *to_come]))
    lengths = [len(sentence) for sentence in seen]
    recipes: dict[str, Callable[[int], list[int]]] = {
        "equal steps": lambda k: [last * n // k for n in range(1, k + 1)],
        "each half the next": lambda k: sorted({-(-last // 2**n) for n in range(k)}),
        "chosen": lambda k: chosen_edges(lengths, k, last),
    }
    return {
        name: [
            work(padded(b, e, 8) for e, b in in_buckets(to_come, edges(k)))
            for k in COUNTS
            if len(edges(k)) == k  # halves end at an edge of 1
        ]
        for name, edges in recipes.items()
    }


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
    axes.set(xticks=COUNTS, xlabel="graphs", ylabel="computed / real tokens")
    axes.set_yticks([1, 2, 4, 8])
    axes.yaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside right upper")
    return Picture(figure, f"{alt} The recompile limit is {limit} graphs.")
