"""compare(): known ratios on a fake clock, real compiles, what it says and keeps."""

import dataclasses
import gc
import random
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import stats
from helpers.benchmark import Comparison, Round, compare, estimate
from helpers.errors import InputError
from helpers.text import unmark
from tests.test_timing import FakeClock

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
    ("ratio", "verdict"),
    [(3, "faster"), (1.005, "same"), (0.5, "slower")],
)
def test_known_ratio(ratio, verdict):
    found = fake(ratio)
    assert found.speedup == pytest.approx(ratio) and found.verdict == verdict
    assert found.median_s == pytest.approx((2e-4 * ratio, 2e-4))
    assert len(found.rounds) == 11  # exact times need no more
    assert {r.a_first for r in found.rounds} == {True, False}
    assert found.cold_start_s == pytest.approx(2e-4)


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
    assert any("other processes" in note for note in found.notes)


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
    assert "timed" in said and not found.rounds[0].clean


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


def test_what_the_compiler_did_is_said():
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    found = compare(
        broken, torch.compile(broken, backend="eager"), torch.ones(8), **QUICK
    )
    assert found.graphs == 2 and "1 graph break: see graphs()" in found.notes

    never = torch.compiler.disable(lambda x: x + 1)

    def outer(x):
        return never(x)

    for compiled in (outer, torch.compile(outer, backend="eager")):
        found = compare(outer, compiled, torch.ones(8), **QUICK)
        assert "nothing was captured: this is eager against eager" in found.notes


@pytest.mark.filterwarnings("ignore")
def test_the_recompile_limit_is_said():
    compiled = torch.compile(lambda x, n: x * n, dynamic=False, backend="eager")

    def burst(x):
        return [compiled(x, n) for n in range(2, 14)][-1]

    found = compare(lambda x: x * 13, burst, torch.randn(64), **QUICK)
    assert any("recompile limit" in note for note in found.notes)


def test_odd_inputs_are_said_if_they_are_dense_and_the_readers():
    def summed(x, *rest):
        return x.sum()

    for inputs, words in (
        ([torch.zeros(64)], ["input 0 is all zeros"]),
        ([torch.ones(2), torch.full((64,), 1e-40)], ["input 1 holds denormal"]),
        ([torch.tensor([1.0, float("nan")])], ["NaN"]),
        ([torch.full((64,), 1e-6).half()], []),
        ([torch.zeros(64, dtype=torch.int64)], []),
        ([torch.zeros(8, 8).to_sparse()], []),
        ([torch.ones(2), torch.nn.BatchNorm1d(4)], []),
    ):
        clock = FakeClock(per_call=1)
        *odd, last = compare(summed, summed, *inputs, clock=clock, **QUICK).notes
        assert last.startswith("nothing was captured") and len(odd) == len(words)
        assert all(word in note for word, note in zip(words, odd, strict=True))


def test_where_page_faults_are_not_told_none_are_claimed(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert compare(chain, chain, torch.randn(9), budget=1e-3).page_faults is None


# ---------------------------------------------------------------- bad input, interrupts


def test_what_cannot_be_raced():
    with pytest.raises(ValueError, match="above 0"):
        compare(chain, chain, torch.ones(2), budget=0)
    for two in ((chain, torch.ones(3)), (torch.ones(3), chain)):
        with pytest.raises(InputError, match="two functions"):
            compare(*two, torch.ones(8))


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
    found = interrupted_at(7 + 8 * 4)
    assert found.interrupted and found.verdict == "same" and len(found.rounds) == 8
    assert "interrupted after 8 rounds" in found.notes
    assert found.page_faults is found.peak_bytes is None


def test_an_interrupt_before_there_is_an_interval_says_so():
    with pytest.raises(KeyboardInterrupt, match="3 rounds timed, 6 are needed"):
        interrupted_at(7 + 3 * 4)


# ------------------------------------------------------------------------- what it says


def made(**changed):
    """A comparison of three rounds, the last of them disturbed."""
    usual = Comparison(
        names=("eager", "compiled"),
        speedup=2.0,
        interval=(1.9, 2.1),
        confidence=0.9612,
        verdict="faster",
        median_s=(2e-3, 1e-3),
        cold_start_s=3.0,
        compiles=1,
        graphs=1,
        graph_breaks=0,
        page_faults=(3, 4),
        peak_bytes=(2048, 512),
        matches=True,
        max_error=1e-7,
        error64=(2e-7, 3e-7),
        rounds=tuple(Round(2e-3, 1e-3, i % 2 == 0, i < 2) for i in range(3)),
        notes=("a note", "another"),
        threads=2,
        device="cpu",
    )
    return dataclasses.replace(usual, **changed)


def test_every_fact_is_the_one_that_was_measured():
    assert dict(made().facts()) == {
        "verdict": "faster: 2x, 96% interval 1.9 to 2.1",
        "eager, median call": "2 ms",
        "compiled, median call": "1 ms",
        "compiled, first call": "3 s",
        "paid back after": "2999 calls",
        "page faults a call": "3, 4",
        "peak memory": "2 KiB, 512 B",
        "largest difference": "1e-07 (from float64: eager 2e-07, compiled 3e-07)",
        "measured in": "3 rounds, 2 undisturbed, 2 threads, caches hot",
        "notes": "a note; another",
    }


def test_what_is_not_known_is_not_made_up():
    unknown = dict.fromkeys(("page_faults", "peak_bytes", "error64"))
    bare = made(verdict="cannot tell", notes=(), threads=1, **unknown)
    facts = dict(bare.facts())
    assert facts["paid back after"] == "cannot tell"
    assert facts["page faults a call"] == facts["peak memory"] == "not known"
    assert facts["largest difference"] == "1e-07" and facts["notes"] == "none"
    for verdict in ("same", "slower"):
        facts = dict(made(verdict=verdict).facts())
        assert facts["paid back after"] == "no number of calls"


def test_the_table_starts_with_the_answers_and_marks_what_was_measured():
    for matches, word in ((True, "agree"), (False, "DIFFER"), (None, "not compared")):
        found = made(names=("old", "new"), matches=matches)
        table = found.table()
        assert table.headings == ("", "new against old")
        assert table.rows[0] == ("answers", word)
        assert table.rows[1:] == tuple((k, f"⟨{v}⟩") for k, v in found.facts())
        assert str(found) == repr(found) == str(table)
        assert found._repr_html_() == table._repr_html_()
        assert unmark(found.sentence()) == "new against old: ⟨…⟩"
