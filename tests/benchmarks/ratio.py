"""A known ratio: the same work once, twice or ten times, beside busy processes or none.

``compare`` is right when its interval, as it is, holds the true ratio.  Where the
machine does not let it know, it must say "cannot tell"; what it must never do is to
call one side faster or slower by a ratio that is off by more than 5 %.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch

from helpers import compare
from helpers.benchmark import Comparison
from tests import records
from tests.benchmarks.common import neighbours

SIZES = {"one thread": 1 << 13, "all threads": 1 << 17}  # numbers
WORK = 200
"""Operations to a unit: the call itself, 0.1 us, must be nothing beside the interval.

At 50 it was 0.07 % of a unit, which made ten units 9.99 times one: enough for intervals
of 0.3 % to miss 10 in 13 runs of 100.
"""


def race(times: int, workload: str) -> Comparison:
    """Return ``compare`` of *times* units of work with one.

    Both sides write to the same array, made before: with one of its own each, the
    places in memory would differ, and the true ratio would not be known.
    """
    x, usual = torch.randn(SIZES[workload]), torch.get_num_threads()
    target = torch.empty_like(x)

    def unit() -> None:
        for _ in range(WORK):
            torch.sigmoid(x, out=target)

    def repeat(times: int) -> Callable[[], torch.Tensor]:
        def f() -> torch.Tensor:
            for _ in range(times):
                unit()  # with all that Python itself needs for it
            return target

        return f

    torch.set_num_threads(1 if workload == "one thread" else usual)
    try:
        return compare(repeat(times), repeat(1), same_answer=False)
    finally:
        torch.set_num_threads(usual)


def row(times: int, workload: str, busy: int, found: list[Comparison]) -> dict:
    """Return what the benchmark records of one kind of race."""
    told = [one for one in found if one.verdict != "cannot tell"]
    right = [one for one in told if one.interval[0] <= times <= one.interval[1]]
    off = [one.speedup / times - 1 for one in told]
    spans = [(one.interval[1] / one.interval[0]) ** 0.5 - 1 for one in told]
    return {
        "true ratio": times,
        "workload": workload,
        "busy processes": busy,
        "runs": len(found),
        "interval holds it": len(right),
        "cannot tell": len(found) - len(told),
        "neither": len(told) - len(right),
        "off by more than 5 %": sum(abs(share) > 0.05 for share in off),
        "median error": f"{median(off):+.2%}" if off else "none",
        "largest error": f"{max(off, key=abs):+.2%}" if off else "none",
        "half width": f"{median(spans):.2%}" if spans else "none",
    }


def main(runs: int) -> None:
    """Count how often the interval holds the true ratio, without widening it."""
    rows = []
    for busy in (0, 1, 3):
        for workload in SIZES:
            for times in (1, 2, 10):
                with neighbours(busy):
                    found = [race(times, workload) for _ in range(runs)]
                rows.append(row(times, workload, busy, found))
                print(" ".join(f"{key}: {value}," for key, value in rows[-1].items()))
                records.write("benchmarks/ratio", rows)
    print(records.markdown(rows))
