"""The statistics hold for any numbers, not for a few examples."""

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import stats

times = st.floats(1e-7, 1e2)
pairs = st.lists(st.tuples(times, times), min_size=1, max_size=60)
values = st.lists(st.floats(-10, 10), min_size=6, max_size=60)


def covered(n, k):
    """The coverage of k-th smallest to k-th largest of n values, all flips counted."""
    heads = [bin(flips).count("1") for flips in range(2**n)]
    return 1 - 2 * sum(h < k for h in heads) / 2**n


@pytest.mark.parametrize("level", [0.5, 0.75, 0.95])
def test_the_sign_interval_is_the_narrowest_that_covers(level):
    """0.75 is what 1 of 3 covers exactly: reaching the level is enough."""
    for n in range(1, 12):
        k = max((k for k in range(1, n // 2 + 1) if covered(n, k) >= level), default=0)
        interval = stats.Interval(k - 1, n - k, pytest.approx(covered(n, k)))
        found = stats.sign_interval([float(i) for i in range(n)], level)
        assert found == (interval if k else None)


def test_coverage_is_what_it_says():
    """Of 2,000 samples of 15 values, about as many hold the truth as stated."""
    draw = random.Random(1)
    held, stated = 0, 0.0
    for _ in range(2000):
        found = stats.sign_interval([draw.expovariate(1) for _ in range(15)])
        held += found.low <= math.log(2) <= found.high
        stated = found.confidence
    assert stated == pytest.approx(1 - 2 * (1 + 15 + 105 + 455) / 2**15)
    assert held / 2000 == pytest.approx(stated, abs=0.015)


@given(values, st.floats(-5, 5), st.randoms())
def test_the_sign_interval_moves_with_its_values_and_not_with_their_order(
    values, shift, draw
):
    found = stats.sign_interval(values)
    assert found.low <= median(values) <= found.high and 0.95 <= found.confidence < 1
    assert stats.sign_interval(draw.sample(values, len(values))) == found
    moved = stats.sign_interval([v + shift for v in values])
    assert (moved.low, moved.high) == (found.low + shift, found.high + shift)
    turned = stats.sign_interval([-v for v in values])
    assert (turned.low, turned.high) == (-found.high, -found.low)


@given(pairs, st.floats(0.01, 100))
def test_the_speedup_scales_with_one_side_and_turns_when_swapped(rounds, factor):
    a, b = [x for x, _ in rounds], [y for _, y in rounds]
    ratio, interval = stats.speedup(a, b)
    more, scaled = stats.speedup([x * factor for x in a], b)
    back, swapped = stats.speedup(b, a)
    assert more == pytest.approx(ratio * factor) and back == pytest.approx(1 / ratio)
    assert (interval is None) == (scaled is None) == (len(rounds) < 6)
    if interval is not None:
        assert interval.low <= ratio * (1 + 1e-12)
        assert ratio <= interval.high * (1 + 1e-12)
        assert scaled.low == pytest.approx(interval.low * factor)
        assert swapped.low == pytest.approx(1 / interval.high)
        assert swapped.confidence == scaled.confidence == interval.confidence
        opposite = {"faster": "slower", "slower": "faster"}
        ends = (interval.low, interval.high)
        edge = any(abs(x * y - 1) < 1e-9 for x in ends for y in (1.01, 1 / 1.01))
        word = stats.verdict(interval)
        assert edge or stats.verdict(swapped) == opposite.get(word, word)


def test_the_speedup_is_the_median_of_the_ratios_not_the_ratio_of_the_medians():
    ratio, interval = stats.speedup([8.0, 1.0, 3.0], [1.0, 1.0, 1.0])
    assert ratio == pytest.approx(3) and interval is None
    ratio, _ = stats.speedup([1.0, 4.0], [1.0, 1.0])
    assert ratio == pytest.approx(2)  # the middle of logarithms
    _, interval = stats.speedup([2.0, 4, 8, 16, 32, 64, 128, 256], [1.0] * 8)
    assert (interval.low, interval.high) == pytest.approx((2, 256))


LOW, HIGH = 1 / 1.01, 1.01


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.0, 1.0, "same"),
        (1.005, 1.05, "cannot tell"),
        (LOW, HIGH, "same"),  # the edges belong to it
        (HIGH, 1.5, "cannot tell"),
        (HIGH + 1e-9, 1.5, "faster"),
        (0.5, LOW, "cannot tell"),
        (0.5, LOW - 1e-9, "slower"),
        (LOW - 1e-9, HIGH, "cannot tell"),
    ],
)
def test_verdict(low, high, word):
    assert stats.verdict(stats.Interval(low, high, 0.95)) == word


@given(st.floats(0, 100), times, times)
def test_pay_back_is_the_first_call_that_pays(cold, a, b):
    n = stats.calls_to_pay_back(cold, a, b)
    if b >= a:
        assert n == math.inf
    elif n < 1e9:
        slack = 1e-6 * (cold + n * a)
        assert cold + (n - 1) * b <= n * a + slack
        assert n == 1 or cold + (n - 2) * b > (n - 1) * a - slack
