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
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


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


def covered(n, k):
    """The coverage of k-th smallest to k-th largest of n values, all flips counted."""
    heads = [bin(flips).count("1") for flips in range(2**n)]
    return 1 - 2 * sum(h < k for h in heads) / 2**n


@pytest.mark.parametrize("n", range(1, 12))
@pytest.mark.parametrize("level", [0.5, 0.75, 0.8, 0.9, 0.95, 0.99])
def test_the_sign_interval_is_the_narrowest_that_covers(n, level):
    """0.75 is what 1 of 3 covers exactly: reaching the level is enough."""
    ranks = [k for k in range(1, n // 2 + 1) if covered(n, k) >= level]
    found = stats.sign_interval([float(i) for i in range(n)], level)
    if not ranks:
        assert found is None
    else:
        k = max(ranks)
        assert found == stats.Interval(k - 1, n - k, pytest.approx(covered(n, k)))


@given(st.lists(times, min_size=1, max_size=40), levels, st.randoms())
def test_the_order_of_values_does_not_matter(values, level, draw):
    mixed = draw.sample(values, len(values))
    assert stats.sign_interval(mixed, level) == stats.sign_interval(values, level)
    assert stats.quantile(mixed, 0.25) == stats.quantile(values, 0.25)


@given(st.lists(st.floats(-10, 10), min_size=6, max_size=40), st.floats(-5, 5))
def test_the_sign_interval_moves_with_its_values(values, shift):
    found = stats.sign_interval(values)
    moved = stats.sign_interval([v + shift for v in values])
    assert (moved.low, moved.high) == (found.low + shift, found.high + shift)
    turned = stats.sign_interval([-v for v in values])
    assert (turned.low, turned.high) == (-found.high, -found.low)


@given(pairs, st.floats(0.01, 100))
def test_the_interval_scales_and_turns_with_the_speedup(rounds, factor):
    a, b = [x for x, _ in rounds], [y for _, y in rounds]
    ratio, interval = stats.speedup(a, b)
    _, scaled = stats.speedup([x * factor for x in a], b)
    _, swapped = stats.speedup(b, a)
    assert (interval is None) == (scaled is None) == (swapped is None)
    assert (interval is None) == (len(rounds) < 6)
    if interval is not None:
        assert interval.low <= ratio * (1 + 1e-12)
        assert ratio <= interval.high * (1 + 1e-12)
        assert scaled.low == pytest.approx(interval.low * factor)
        assert scaled.high == pytest.approx(interval.high * factor)
        assert swapped.high == pytest.approx(1 / interval.low)
        assert swapped.confidence == scaled.confidence == interval.confidence
        opposite = {"faster": "slower", "slower": "faster"}
        edge = any(
            abs(x * y - 1) < 1e-9
            for x in (interval.low, interval.high)
            for y in (1.01, 1 / 1.01)
        )
        word = stats.verdict(interval)
        assert edge or stats.verdict(swapped) == opposite.get(word, word)


@given(pairs, st.randoms())
def test_rounds_are_paired_but_their_order_does_not_matter(rounds, draw):
    mixed = draw.sample(rounds, len(rounds))
    one = stats.speedup(*zip(*rounds, strict=True))
    two = stats.speedup(*zip(*mixed, strict=True))
    assert one[0] == pytest.approx(two[0]) and one[1] == two[1]


def test_the_speedup_is_the_median_of_the_ratios_not_the_ratio_of_the_medians():
    ratio, interval = stats.speedup([8.0, 1.0, 3.0], [1.0, 1.0, 1.0])
    assert ratio == pytest.approx(3) and interval is None
    ratio, _ = stats.speedup([1.0, 4.0], [1.0, 1.0])
    assert ratio == pytest.approx(2)  # the middle of logarithms
    _, interval = stats.speedup([2.0, 4, 8, 16, 32, 64, 128, 256], [1.0] * 8)
    assert (interval.low, interval.high) == pytest.approx((2, 256))
    assert interval.confidence == 1 - 2 / 2**8


@given(st.lists(times, max_size=5), st.floats(0.001, 0.5))
def test_no_verdict_from_few_rounds(values, same):
    if values:
        _, interval = stats.speedup([10 * v for v in values], values)
        assert stats.verdict(interval, same) == "cannot tell"


def test_the_edges_of_a_verdict_belong_to_the_same():
    low, high = 1 / 1.01, 1.01

    def word(a, b, *same):
        return stats.verdict(stats.Interval(a, b, 0.95), *same)

    assert stats.SAME == 0.01
    assert word(low, high) == "same"
    assert word(high, 1.5) == word(0.5, low) == "cannot tell"
    assert word(high + 1e-9, 1.5) == "faster"
    assert word(0.5, low - 1e-9) == "slower"
    assert word(low - 1e-9, high) == word(low, high + 1e-9) == "cannot tell"
    assert word(0.8, 1.25, 0.25) == "same"
    assert word(1.02, 1.5, 0.25) == "cannot tell"


def test_half_the_width_is_a_share_of_the_centre():
    assert stats.Interval(1.0, 1.21, 0.95).half_width == pytest.approx(0.1)
    assert stats.Interval(0.5, 2.0, 0.95).half_width == pytest.approx(1.0)


@given(times, st.floats(1, 2), st.floats(0.1, 10))
def test_half_the_width_does_not_depend_on_the_scale(low, width, factor):
    one = stats.Interval(low, low * width, 0.95)
    two = stats.Interval(factor * low, factor * low * width, 0.95)
    assert one.half_width == pytest.approx(two.half_width, abs=1e-9)


def test_the_range_of_two():
    found = stats.range_interval([2.0, 1.0])
    assert (found.low, found.high, found.confidence) == (1.0, 2.0, 0.5)


def test_pay_back_in_whole_calls():
    """10 s + (n - 1) 1 s is at most n 3 s from the fifth call on."""
    assert stats.calls_to_pay_back(10, 3, 1) == 5
    assert stats.calls_to_pay_back(9, 3, 1) == 4  # 12 s on both sides
    assert stats.calls_to_pay_back(1, 3, 1) == 1
    assert stats.calls_to_pay_back(0, 3, 1) == 1
    assert stats.calls_to_pay_back(1, 2, 2) == math.inf


def test_quantiles_are_values_that_occurred():
    values = [40, 10, 30, 20]
    shares = (0, 0.24, 0.25, 0.5, 0.75, 0.99, 1)
    found = [stats.quantile(values, share) for share in shares]
    assert found == [10, 10, 20, 30, 40, 40, 40]
    assert values == [40, 10, 30, 20]
