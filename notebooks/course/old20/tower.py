"""A tower of equal blocks with dropout, and the memory of a step of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import record_function

from course.memory import Recording, record
from helpers import device

WIDTH = 128


class Block(nn.Module):
    """Out to four times the width and back, added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.drop = nn.Dropout(0.1)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after this block."""
        return x + self.down(self.drop(F.gelu(self.up(self.norm(x)))))


class Tower(nn.Module):
    """Blocks one after the other; *each* says how one of them is called."""

    def __init__(self, each: Callable[..., Any] = lambda block, x: block(x)):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.each = each
        self.to(device())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after all blocks."""
        for block in self.blocks:
            x = self.each(block, x)
        return x


def step_memory(call: Callable[..., Any], tower: Tower, rows: int = 1024) -> Recording:
    """Return the memory of a training step, after one that compiles.

    *call* runs *tower*.  The optimizer drops the gradients, and no more.
    """
    x = torch.randn(rows, WIDTH, device=device())

    def step() -> None:
        with record_function("forward"):
            loss = call(x).square().mean()
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            tower.zero_grad()

    step()
    return record(step)
