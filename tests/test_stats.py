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


@given(st.lists(st.floats(-10, 10), min_size=6, max_size=80))
def test_sign_interval_holds_the_median_and_states_its_coverage(values):
    found = stats.sign_interval(values)
    assert found.low <= median(values) <= found.high
    assert found.low in values and found.high in values
    assert 0.95 <= found.confidence < 1


@pytest.mark.parametrize("n", range(6))
def test_too_few_values_give_no_interval(n):
    assert stats.sign_interval([1.0] * n) is None
    assert stats.verdict(None) == "cannot tell"


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


@given(pairs, st.floats(0.01, 100))
def test_speedup_scales_with_one_side_and_inverts_when_swapped(rounds, factor):
    a, b = [x for x, _ in rounds], [y for _, y in rounds]
    ratio, interval = stats.speedup(a, b)
    scaled, _ = stats.speedup([x * factor for x in a], b)
    back, swapped = stats.speedup(b, a)
    assert scaled == pytest.approx(ratio * factor)
    assert back == pytest.approx(1 / ratio)
    if interval is not None:
        assert swapped.low == pytest.approx(1 / interval.high)


@given(st.lists(times, min_size=6, max_size=40))
def test_a_side_against_itself_is_the_same(values):
    ratio, interval = stats.speedup(values, values)
    assert ratio == pytest.approx(1)
    assert stats.verdict(interval) == "same"
    assert interval.half_width == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.02, 1.5, "faster"),
        (0.5, 0.98, "slower"),
        (0.995, 1.005, "same"),
        (1.005, 1.05, "cannot tell"),
        (0.9, 1.1, "cannot tell"),
        (1.0, 1.02, "cannot tell"),
    ],
)
def test_verdict(low, high, word):
    assert stats.verdict(stats.Interval(low, high, 0.95)) == word


def test_speedup_refuses_unpaired_times():
    with pytest.raises(ValueError, match="as many times"):
        stats.speedup([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="as many times"):
        stats.speedup([], [])


def test_range_of_five_processes():
    found = stats.range_interval([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (found.low, found.high, found.confidence) == (1.0, 5.0, 0.9375)
    with pytest.raises(ValueError, match="two"):
        stats.range_interval([1.0])


@given(st.floats(0, 100), times, times)
def test_pay_back_is_the_first_call_that_pays(cold, a, b):
    n = stats.calls_to_pay_back(cold, a, b)
    if b >= a:
        assert n == math.inf
    elif n < 1e9:
        slack = 1e-6 * (cold + n * a)
        assert cold + (n - 1) * b <= n * a + slack
        assert n == 1 or cold + (n - 2) * b > (n - 1) * a - slack


def test_quantile():
    assert stats.quantile([3, 1, 2, 4], 0.25) == 2
    assert stats.quantile([7], 0.9) == 7
    with pytest.raises(ValueError, match="no values"):
        stats.quantile([], 0.5)
