"""A small language model, and Alice in Wonderland to read.

Its parts are those of Llama: RMSNorm, rotary positions, causal attention and
a gated MLP.  Its weights are random: counts and times depend on shapes, not
on what a model has learned.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

_BOOK = Path(__file__).parents[2] / "data" / "alice.txt"
TEXT = " ".join(_BOOK.read_text(encoding="utf-8").split())
ALPHABET = sorted(set(TEXT))
LENGTH = 96


def norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """Return x with a root mean square of one in each row, times gain."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return x with each pair of its numbers rotated by the angle of its position."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Block(nn.Module):
    """Attention, then a gated MLP, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.gain1 = nn.Parameter(torch.ones(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gain2 = nn.Parameter(torch.ones(width))
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        """Return x after this block."""
        qkv = self.qkv(norm(x, self.gain1)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        gate, value = self.up(norm(x, self.gain2)).chunk(2, -1)
        return x + self.down(F.silu(gate) * value)


class Reader(nn.Module):
    """Scores each letter of the alphabet as the next one, at each position."""

    def __init__(self, width: int = 128, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(ALPHABET), width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.gain = nn.Parameter(torch.ones(width))
        self.scores = nn.Linear(width, len(ALPHABET), bias=False)
        half = width // heads // 2
        speed = 10_000 ** -(torch.arange(half) / half)
        angle = torch.outer(torch.arange(LENGTH), speed).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next letter, for each position in text."""
        x, length = self.letters(text), text.shape[1]
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length])
        return self.scores(norm(x, self.gain))

    @torch.no_grad()
    def generate(self, text: torch.Tensor, steps: int) -> torch.Tensor:
        """Return text continued by *steps* letters, one at a time."""
        for _ in range(steps):
            letter = self(text)[:, -1:].argmax(-1)
            text = torch.cat([text[:, 1:], letter], dim=1)
        return text


def pages(rows: int, length: int = LENGTH) -> torch.Tensor:
    """Return the beginning of the book as numbers, in rows of *length*."""
    beginning = TEXT[: rows * length]
    return torch.tensor([ALPHABET.index(c) for c in beginning]).view(rows, -1)
