"""The statistics of a fair comparison, in plain Python.

Eager and compiled are timed in pairs, in random order, so what we know is one
ratio per round.  The median of these ratios is the speed-up, and the exact sign
interval (two order statistics, Conover, *Practical Nonparametric Statistics*,
3rd ed., section 3.2) is its confidence interval: it assumes neither a normal
distribution nor equal noise in every round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high, median_low

SAME = 0.01
"""Two sides whose ratio is within this of 1 count as the same."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a ratio; *confidence* is exact, never rounded up."""

    low: float
    high: float
    confidence: float

    @property
    def half_width(self) -> float:
        """Return half the width of the interval, as a share of its centre."""
        return math.sqrt(self.high / self.low) - 1.0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the order statistic of *values* at *share* (0 lowest, 1 highest)."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _tail(n: int, rank: int) -> float:
    """Return P(X < rank) for X ~ Binomial(n, 1/2)."""
    return sum(math.comb(n, i) for i in range(rank)) / 2**n


def sign_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the narrowest sign interval of the median, or None if too few.

    The interval runs from the *k*-th smallest to the *k*-th largest value, with
    the largest *k* whose coverage, ``1 - 2 P(Binomial(n, 1/2) < k)``, reaches
    *confidence*.  At 95 % that takes six values.
    """
    ordered, n = sorted(values), len(values)
    rank = 0
    while rank < n // 2 and 1 - 2 * _tail(n, rank + 1) >= confidence:
        rank += 1
    if rank == 0:
        return None
    return Interval(ordered[rank - 1], ordered[-rank], 1 - 2 * _tail(n, rank))


def speedup(a: Sequence[float], b: Sequence[float]) -> tuple[float, Interval | None]:
    """Return the median of the paired ratios a/b and its sign interval.

    *a* and *b* are seconds, one of each per round; both must be positive.
    """
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    # Of two in the middle, the middle of their logarithms: 2x and 0.5x make 1x.
    return math.sqrt(median_low(ratios) * median_high(ratios)), sign_interval(ratios)


def verdict(interval: Interval) -> str:
    """Return the verdict about b that an interval of a/b allows.

    ``faster`` or ``slower`` when the whole interval is beyond SAME of 1,
    ``same`` when the whole interval is within, else ``cannot tell``.
    """
    low, high = 1 / (1 + SAME), 1 + SAME
    if interval.low > high:
        return "faster"
    if interval.high < low:
        return "slower"
    if low <= interval.low and interval.high <= high:
        return "same"
    return "cannot tell"


def calls_to_pay_back(cold_s: float, a_s: float, b_s: float) -> float:
    """Return after how many calls compiling has paid for its first call.

    ``cold_s + (n - 1) b_s <= n a_s`` solved for n; infinite when b is not faster.
    """
    if b_s >= a_s:
        return math.inf
    return max(1.0, math.ceil((cold_s - b_s) / (a_s - b_s)))
