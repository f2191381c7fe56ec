"""compare(): known ratios on a fake clock, real compiles, what it says and keeps."""

import gc
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import stats
from helpers.benchmark import Round, compare, estimate
from helpers.errors import InputError
from tests.helpers.test_timing import FakeClock

QUICK = {"budget": 0.1}


def spending(clock, seconds):
    """Return a function that takes *seconds* of the fake clock's time."""

    def f(x):
        clock.spend(seconds)
        return x + 1

    return f


def fake(ratio, clock=None, **options):
    """Return compare() of two functions whose true ratio is *ratio*."""
    clock = clock or FakeClock()
    a, b = spending(clock, 2e-4 * ratio), spending(clock, 2e-4)
    return compare(a, b, torch.ones(4), clock=clock, **options)


def shaky(scale, seed=0):
    """Return a clock whose samples take longer by chance, about *scale* seconds."""
    draw = random.Random(seed)
    return FakeClock(extra=lambda n: abs(draw.gauss(0, scale)))


# ------------------------------------------------------------------ rounds and estimate


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(3, "faster"), (1.005, "same"), (0.5, "slower")]
)
def test_known_ratio(ratio, verdict):
    clock = FakeClock()
    found = fake(ratio, clock)
    assert found.speedup == pytest.approx(ratio) and found.verdict == verdict
    # Each side is warm after 50 ms, and a round is a block of 8 ms of each: 11 count,
    # and one says before how many of these short calls make a sample.
    assert len(found.rounds) == 11
    assert clock.now() == pytest.approx(0.1 + 12 * 2 * 8e-3, rel=0.05)
    assert found.median_s == pytest.approx((2e-4 * ratio, 2e-4))
    assert {r.a_first for r in found.rounds} == {True, False}
    assert found.cold_start_s == pytest.approx(2e-4)
    assert found.confidence == pytest.approx(1 - 2 * 12 / 2**11)
    assert found.threads == torch.get_num_threads()


def test_noise_that_hits_both_sides_leaves_the_ratio():
    for seed in range(5):
        low, high = fake(2.0, clock=shaky(3e-5, seed)).interval
        assert low * 0.99 <= 2.0 <= high * 1.01


def test_noise_too_great_is_cannot_tell_and_takes_the_whole_budget():
    clock = shaky(3e-3)
    found = fake(1.02, budget=0.5, clock=clock)
    low, high = found.interval
    assert found.verdict == "cannot tell" and low < 1.02 < high
    assert clock.now() > 0.5
    assert len(fake(2.0, budget=1e-9).rounds) == 6  # in any case


@pytest.mark.parametrize(
    ("per_call", "samples"),
    [(1.0, 7), (2**-6, 9)],  # the first call; of each side three, or 50 ms
)
def test_each_side_is_warmed_up_before_two_samples_a_round(per_call, samples):
    clock = FakeClock(per_call=per_call)
    compare(chain, chain, torch.ones(4), clock=clock, budget=1e-9)
    assert clock.samples == samples + 6 * 2 * 2


def rounds(clean, disturbed, waited=0.0):
    """Clean rounds say 2; disturbed ones say 10, and may have waited as long."""
    one = Round(2.0, 1.0, True, True)
    two = Round(10.0, 1.0, True, False, 10 * waited, waited)
    return [one] * clean + [two] * disturbed


def test_undisturbed_rounds_alone_count_when_there_are_enough():
    used, ratio, interval = estimate(rounds(6, 40))
    assert len(used) == 6 and ratio == pytest.approx(2)
    assert (interval.low, interval.high) == pytest.approx((2, 2))
    used, ratio, _ = estimate(rounds(5, 40))
    assert len(used) == 45 and ratio == pytest.approx(10)


@pytest.mark.parametrize(
    ("waited", "verdict"), [(0.0, "faster"), (0.04, "faster"), (0.2, "cannot tell")]
)
def test_disturbed_rounds_decide_when_the_waiting_leaves_little_open(waited, verdict):
    _, ratio, interval = estimate(rounds(0, 20, waited))
    assert ratio == pytest.approx(10) and stats.verdict(interval) == verdict
    low = 10 * (1 - waited) if verdict == "faster" else 1
    assert interval.low == pytest.approx(low)
    assert interval.high == pytest.approx(10 / (1 - waited))
    assert interval.confidence == pytest.approx(0.9586, abs=1e-4)


waits = st.tuples(st.floats(0, 50), st.floats(0, 50)) | st.just((0, 0))


@given(st.lists(waits, min_size=6))
def test_the_bounds_hold_the_truth_however_long_each_side_waited(waits):
    """The true ratio is 3; a disturbed side takes longer by what it waited."""
    found = [Round(3 + a, 1 + b, True, not a + b, a, b) for a, b in waits]
    _, ratio, interval = estimate(found)
    assert interval.low <= 3 * (1 + 1e-9) and interval.high >= 3 * (1 - 1e-9)
    if stats.verdict(interval) != "cannot tell":
        assert ratio == pytest.approx(3, rel=0.0501)


def test_a_machine_always_disturbed_is_said_and_nothing_is_claimed():
    """A true ratio of 10; samples that wait for a core, the longer the longer."""
    clock = FakeClock(waits=lambda n: 1e-4 * (n % 7 + 1))
    found = fake(10.0, clock=clock, budget=0.3)
    assert not any(r.clean for r in found.rounds)
    assert (
        found.verdict == "cannot tell" and found.interval[0] <= 10 <= found.interval[1]
    )
    said = "other processes disturbed most rounds: close them and repeat"
    assert found.notes[-1] == said and clock.now() > 0.3


def test_a_recompile_while_timing_is_said_with_its_reason():
    # The collector is off while rounds are timed and at no other moment.
    timed = [False]

    def body(x):
        return x * 2 if timed[0] else x + x

    compiled = torch.compile(body, backend="eager")

    def counted(x):
        timed[0] = not gc.isenabled()
        return compiled(x)

    found = compare(lambda x: x * 2, counted, torch.randn(1 << 12), **QUICK)
    (said,) = [note for note in found.notes if "recompiled while being timed" in note]
    assert "timed" in said


# ------------------------------------------------------------------------ real compiles


def chain(x):
    return torch.relu(x * 2 + 1) * 0.5


def test_a_real_compile():
    x, compiled = torch.randn(1 << 12), torch.compile(chain)
    found = compare(chain, compiled, x, **QUICK)
    assert (found.graphs, found.graph_breaks, found.compiles) == (1, 0, 1)
    assert found.matches and found.max_error < 1e-5 and max(found.error64) < 1e-5
    assert found.cold_start_s > 5 * found.median_s[1]
    assert found.machine.torch == torch.__version__ and found.device == "cpu"
    again = compare(chain, compiled, x, **QUICK)
    assert again.compiles == 0
    assert not any("captured" in note for note in (*found.notes, *again.notes))


def test_a_function_that_uses_room_up_is_timed_in_blocks_of_three_calls():
    room, place, x = torch.zeros(3), [0], torch.ones(1)

    def write(x):
        room[place[0]] = x
        place[0] += 1
        return room.sum()

    found = compare(write, write, x, budget=0.2)
    assert len(found.rounds) > 5
    assert any(
        note.startswith("timed in blocks of 3 calls: longer ones fail: IndexError: ind")
        for note in found.notes
    )
    room = torch.zeros(2)
    with pytest.raises(
        InputError,
        match=r"^a function .* again: IndexError.*\nIf it .*room for many\.$",
    ):
        compare(write, write, x)


# ---------------------------------------------------------------- bad input, interrupts


def test_what_cannot_be_raced():
    with pytest.raises(ValueError, match=r"^budget \(seconds\) must be above 0$"):
        compare(chain, chain, torch.ones(2), budget=0)
    for two in ((chain, torch.ones(3)), (torch.ones(3), chain)):
        with pytest.raises(InputError, match=r"^compare .* inputs: compare\(f, torch"):
            compare(*two, torch.ones(8))
    there = torch.nn.Linear(2, 2, device="meta")
    for two in ((chain, there), (there, chain)):
        with pytest.raises(InputError, match="on cpu and meta"):
            compare(*two, torch.ones(2))


def test_races_that_are_not_meant_to_agree_are_not_compared():
    found = fake(2.0, same_answer=False, names=("old", "new"))
    assert found.matches is None and found.names == ("old", "new")
    assert found.notes[0] == "two different computations, on purpose"


def interrupted_at(sample):
    """Return compare() where Ctrl-C comes in this sample of the fake clock."""

    def extra(n):
        if n == sample:
            raise KeyboardInterrupt
        return 0.0

    return fake(2.0, FakeClock(extra=extra, per_call=0.02))


def test_an_interrupt_keeps_the_rounds_that_are_timed():
    """Each side is called six times before the rounds, and twice in each of them."""
    for rounds in (6, 8):
        found = interrupted_at(7 + rounds * 4)
        assert found.interrupted is True and found.verdict == "same"
        assert len(found.rounds) == rounds
        assert f"interrupted after {rounds} rounds" in found.notes
        assert found.page_faults is found.peak_bytes is None
