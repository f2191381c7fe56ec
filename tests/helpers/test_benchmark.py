"""compare(): known ratios on a fake clock, real compiles, what it says and keeps."""

import contextlib
import dataclasses
import gc
import itertools
import random
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import benchmark, capture, stats, text
from helpers.benchmark import Comparison, Round, compare, estimate
from helpers.errors import InputError
from helpers.text import unmark
from helpers.timing import Faults
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
    ("ratio", "verdict"),
    [(3, "faster"), (1.005, "same"), (0.5, "slower")],
)
def test_known_ratio(ratio, verdict):
    clock = FakeClock()
    found = fake(ratio, clock)
    assert found.speedup == pytest.approx(ratio) and found.verdict == verdict
    # Each side is warm after 50 ms, and a round is a block of 8 ms of each.
    assert clock.now() == pytest.approx(0.1 + 11 * 2 * 8e-3, rel=0.05)
    assert found.median_s == pytest.approx((2e-4 * ratio, 2e-4))
    assert len(found.rounds) == 11  # exact times need no more
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


def test_noise_that_is_little_ends_a_race_when_it_is_looked_at():
    """Each time a quarter more rounds, for a look costs time."""
    ended = {len(fake(2.0, clock=shaky(1e-5, seed)).rounds) for seed in range(6)}
    assert ended == {13, 16, 20, 38}  # and so may 11, 25 and 31 be


@pytest.mark.parametrize(
    ("per_call", "samples"),
    [(1.0, 7), (2**-6, 9)],  # the first call; of each side three, or 50 ms
)
def test_each_side_is_warmed_up_before_two_samples_a_round(per_call, samples):
    clock = FakeClock(per_call=per_call)
    compare(chain, chain, torch.ones(4), clock=clock, budget=1e-9)
    assert clock.samples == samples + 6 * 2 * 2


def test_what_compiles_on_every_call_is_warmed_up_64_times(monkeypatch):
    clock = FakeClock(per_call=2**-5)

    class Restless(capture.Watch):
        compiles = property(lambda self: clock.samples)

    monkeypatch.setattr(benchmark, "Watch", Restless)
    found = compare(chain, chain, torch.ones(4), clock=clock, budget=1e-9)
    assert clock.samples == 1 + 64 + 64 + 6 * 2 * 2
    assert not any(r.clean for r in found.rounds)
    (said,) = [note for note in found.notes if "recompiled" in note]
    assert "being timed (torch gives no reason): those rounds" in said


def test_a_side_is_warm_after_three_calls_that_compile_nothing(monkeypatch):
    """The first call, two that compile, three of each side, and two samples a round."""
    clock = FakeClock(per_call=1.0)

    class Slowly(capture.Watch):
        compiles = property(lambda self: min(clock.samples, 3))

    monkeypatch.setattr(benchmark, "Watch", Slowly)
    compare(chain, chain, torch.ones(4), clock=clock, budget=1e-9)
    assert clock.samples == 1 + 2 + 3 + 3 + 6 * 2 * 2


def test_the_clock_is_that_of_the_device(monkeypatch):
    clocks = {"cpu": FakeClock(per_call=1.0), "cuda": FakeClock(per_call=2.0)}
    monkeypatch.setattr(benchmark, "clock_for", clocks.__getitem__)
    how = {"same_answer": False, "budget": 1e-9}
    found = compare(chain, chain, torch.ones(4), **how)
    assert (found.device, found.median_s) == ("cpu", (1.0, 1.0))
    # A function may hold tensors on another device than its inputs: its answer tells.
    there = SimpleNamespace(results=[SimpleNamespace(is_cuda=True)])
    monkeypatch.setattr(benchmark, "_first_call", lambda *_: (9.0, there))
    monkeypatch.setattr(benchmark, "peak_bytes", lambda f, device: {"cuda": 7}[device])
    found = compare(chain, chain, torch.ones(4), **how)
    assert (found.device, found.median_s) == ("cuda", (2.0, 2.0))
    assert found.page_faults is None and found.peak_bytes == (7, 7)


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
    ("clean", "others", "low"), [(15, 9, 2), (14, 9, 1), (7, 0, 2)]
)
def test_a_wide_interval_is_left_alone_where_enough_rounds_were_undisturbed(
    clean, others, low
):
    found = [Round(2.0 + i % 2, 1.0, True, True) for i in range(clean)]
    _, _, interval = estimate(found + rounds(0, others))
    assert (interval.low, interval.high) == pytest.approx((low, 3))


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
    swapped = [
        Round(r.b_s, r.a_s, True, False, r.b_waited_s, r.a_waited_s)
        for r in rounds(0, 20, waited)
    ]
    _, _, other = estimate(swapped)
    assert (other.low, other.high) == pytest.approx(
        (1 / interval.high, 1 / interval.low)
    )


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
    said = "the recompile limit was hit: from then on it ran eagerly"
    assert said in found.notes


def test_odd_inputs_are_said_if_they_are_dense_and_the_readers():
    def summed(x, *rest):
        return x.sum()

    for inputs, words in (
        ([torch.zeros(2)], ["input 0 is all zeros: use random numbers"]),
        (
            [torch.ones(2), torch.full((64,), 1e-40)],
            ["input 1 holds denormal numbers, which are slow"],
        ),
        ([torch.tensor([1.0, float("nan")])], ["input 0 holds NaN or infinity"]),
        ([torch.zeros(1), torch.tensor([0.0, 1.0])], []),
        ([torch.eye(8), torch.rand(1 << 17)], []),
        ([torch.full((64,), 1e-6).half()], []),
        ([torch.zeros(64, dtype=torch.int64)], []),
        ([torch.zeros(8, 8).to_sparse()], []),
        ([torch.ones(2), torch.nn.BatchNorm1d(4)], []),
    ):
        clock = FakeClock(per_call=1)
        *odd, last = compare(summed, summed, *inputs, clock=clock, **QUICK).notes
        assert last.startswith("nothing was captured") and odd == words


def test_where_page_faults_are_not_told_none_are_claimed(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert compare(chain, chain, torch.randn(9), budget=1e-3).page_faults is None


def test_memory_is_that_of_a_call_of_each_side(monkeypatch):
    bytes_of = {20: 2048, 30: 512, 40: None}
    monkeypatch.setattr(benchmark, "page_faults", lambda f: Faults(int(f()), 0.9))
    monkeypatch.setattr(
        benchmark, "peak_bytes", lambda f, device: {"cpu": bytes_of}[device][int(f())]
    )

    def raced(b):
        x, clock = torch.tensor(20.0), FakeClock(per_call=1.0)
        options = {"same_answer": False, "budget": 1e-9, "clock": clock}
        return compare(torch.clone, lambda x: x + b, x, **options)

    found = raced(10)
    assert (found.page_faults, found.peak_bytes) == ((20, 30), (2048, 512))
    assert found.notes[-1] == (
        "page faults dominate: call keep_memory() first to time the arithmetic"
    )
    assert raced(20).peak_bytes is None


def test_rounds_are_timed_on_pinned_threads_beside_a_bar_of_seconds(monkeypatch):
    bars = []

    class Bar:
        def __init__(self, *words):
            self.words, self.n = words, 0.0
            bars.append(self)

        def update(self, seconds):
            self.n += seconds

    @contextlib.contextmanager
    def pinned():
        bars.append("pinned")
        yield True

    monkeypatch.setattr(text, "progress", lambda *w: contextlib.nullcontext(Bar(*w)))
    monkeypatch.setattr(benchmark, "pinned_threads", pinned)
    fake(2.0, budget=0.05)
    assert bars[0] == "pinned" and bars[1].words == ("timing", 0.05, "s")
    assert bars[1].n == pytest.approx(0.05)


@pytest.mark.parametrize("at", [(3_000,), (3_000, 5_000)])
def test_a_fault_that_passes_is_noted_and_changes_no_plan(at):
    """In the race, where a sample has five calls of 20 µs, as after the warm-up."""

    def compared(*at):
        clock, calls = FakeClock(), itertools.count()

        def fails(x):
            clock.spend(2e-5)
            if next(calls) in at:
                raise RuntimeError("the network is away")
            return x + 1

        two = fails, spending(clock, 2e-5)
        return compare(*two, torch.ones(4), clock=clock, budget=0.3), clock.samples

    (usual, samples), (found, more) = compared(), compared(*at)
    assert len(found.rounds) == len(usual.rounds)
    assert found.median_s == pytest.approx(usual.median_s)
    assert 0 < more - samples <= 160 * len(at)  # those of rounds that are timed again
    *others, said = found.notes
    assert said == (
        f"{text.count(len(at), 'block')} failed, timed again: RuntimeError: the "
        "network is away"
    )
    assert tuple(others) == usual.notes


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
    assert not any("timed again" in note for note in found.notes)
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


def test_keywords_and_both_tolerances_are_taken():
    def moved(x, *, by):
        return x + by

    how = {"kwargs": {"by": 0.5}, "clock": FakeClock(per_call=1.0), **QUICK}
    for options, matches in (({}, False), ({"rtol": 0.6}, True), ({"atol": 0.6}, True)):
        found = compare(lambda x, by: x * 1, moved, torch.ones(4), **how, **options)
        assert found.matches is matches and found.max_error == 0.5


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


def test_an_interrupt_after_the_rounds_keeps_them_all():
    clock = FakeClock(per_call=1.0)

    def f(x):
        if clock.samples == 7 + 6 * 4:
            raise KeyboardInterrupt
        return x + 1

    found = compare(f, f, torch.ones(4), clock=clock, budget=1e-9)
    assert found.interrupted is True and found.page_faults is found.peak_bytes is None
    assert "interrupted after 6 rounds" in found.notes


def test_an_interrupt_before_there_is_an_interval_says_so():
    with pytest.raises(KeyboardInterrupt, match=r"^3 rounds .*, 6 are .*none given$"):
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
