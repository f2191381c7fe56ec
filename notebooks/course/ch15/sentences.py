"""The sentences of a book, and a small model that reads them."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import torch
from torch import nn

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
