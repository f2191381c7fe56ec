"""A known ratio: a function that does the same work twice, or ten times."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch

from helpers import compare
from tests.benchmarks.common import record, table

WORK = 100  # sines per unit of work, so that the call itself is next to nothing


def repeat(times: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that does the same unit of work *times* times.

    It writes to one array made before: with fresh results, ten units would also
    use more memory, and the ratio would no longer be known.
    """
    target = torch.empty(2048)

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(times * WORK):
            torch.sin(x, out=target)
        return target

    return f


def main(runs: int) -> None:
    """Count how often the interval, widened by 1 %, holds the true ratio."""
    rows = []
    x = torch.randn(2048)
    for times in (2, 10):
        found = [compare(repeat(times), repeat(1), x) for _ in range(runs)]
        spans = [one.interval for one in found]
        held = sum(low / 1.01 <= times <= high * 1.01 for low, high in spans)
        off = [one.speedup / times - 1 for one in found]
        rows.append(
            {
                "true ratio": times,
                "runs": runs,
                "interval holds it": held,
                "median error": f"{median(off):+.2%}",
                "largest error": f"{max(off, key=abs):+.2%}",
            }
        )
        print(rows[-1], flush=True)
    record("ratio", rows)
    print(table(rows))
