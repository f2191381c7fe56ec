"""The README's picture: three programs, three fates, measured where it says."""

from __future__ import annotations

import torch

from helpers import compare, keep_memory
from helpers.plots import plot_comparison
from helpers.results import Machine
from helpers.text import plain
from tests import records

PICTURE = records.DATA / "benchmarks" / "three_fates.png"


def matmul(a: torch.Tensor) -> torch.Tensor:
    """Return a times a: bound by arithmetic."""
    return a @ a


def eight(x: torch.Tensor) -> torch.Tensor:
    """Return x after eight operations: bound by memory."""
    for _ in range(4):
        x = x * 0.9 + 0.1
    return x


def tiny(x: torch.Tensor) -> torch.Tensor:
    """Return x plus one: bound by overhead."""
    return x + 1


def main() -> None:
    """Race the three, draw them and keep both the picture and its text."""
    torch.manual_seed(0)
    keep_memory()
    cases = {
        "one big matmul": (matmul, torch.randn(1024, 1024)),
        "eight operations on\n32 Mi numbers": (eight, torch.randn(2**25)),
        "x + 1 on\none number": (tiny, torch.randn(1)),
    }
    races = {
        name: compare(f, torch.compile(f), x, budget=5)
        for name, (f, x) in cases.items()
    }
    drawn = plot_comparison(*races.values(), labels=list(races))
    drawn.figure.savefig(PICTURE, dpi=200)
    rows = [
        {"program": " ".join(name.split()), "found": race.ratio()}
        for name, race in races.items()
    ]
    records.write("benchmarks/picture", rows, alt=plain(drawn.alt).replace("\n", " "))
    print(drawn, Machine.here(), sep="\n")
