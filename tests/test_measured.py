"""How a comparison is timed, on a clock that the test controls."""

import inspect
import random
import types

import pytest
import torch

from helpers import benchmark, timing
from helpers.benchmark import Round
from helpers.timing import Bandwidth, Faults, copy_bandwidth
from tests.test_clock import FakeClock


@pytest.fixture(autouse=True)
def _calm(monkeypatch):
    """What else this machine does must not count on a clock that is not its own."""
    monkeypatch.setattr(timing, "waiting_seconds", lambda: 0.0)


def watch(**more):
    usual = {
        "compiles": 0, "reasons": (), "graphs": 1, "graph_breaks": 0,
        "limit_hit": False, "ignored": (),
    }  # fmt: skip
    return types.SimpleNamespace(**usual | more)


def spend(fake, *seconds):
    """Return a function that takes these times in turn, the last for ever."""
    left = list(seconds)

    def call(*_):
        fake.spend(left.pop(0) if len(left) > 1 else left[0])
        return torch.ones(2)

    return call


# --------------------------------------------------------------------------- warming up


def test_warm_is_the_lower_quartile_of_50_ms_at_least():
    fake = FakeClock()
    found = benchmark._warm(fake, spend(fake, 5.0, 0.002), watch())
    assert found == pytest.approx(0.002)
    assert fake.samples == 3  # the first was long, but nothing compiles in three calls
    fake = FakeClock()
    assert benchmark._warm(fake, spend(fake, 0.01), watch()) == pytest.approx(0.01)
    assert fake.samples in (5, 6)  # 50 ms, give or take a rounding
    fake = FakeClock()
    found = benchmark._warm(fake, spend(fake, 0.04, 0.03, 0.02, 0.01), watch())
    assert found == pytest.approx(0.02) and fake.samples == 3


def test_a_compile_starts_the_warming_again():
    fake, seen = FakeClock(), watch()

    def call():
        fake.spend(0.1)
        if fake.samples in (0, 1, 3):
            seen.compiles += 1

    benchmark._warm(fake, call, seen)
    assert fake.samples == 4 + 3


def test_what_compiles_on_every_call_is_given_up_after_a_second():
    for seconds, calls in ((0.1, 64), (0.01, 101)):
        fake, seen = FakeClock(), watch()

        def call(fake=fake, seen=seen, seconds=seconds):
            fake.spend(seconds)
            seen.compiles += 1

        benchmark._warm(fake, call, seen)
        assert abs(fake.samples - calls) <= 1


def test_a_call_of_no_time_is_no_division_by_zero():
    fake = FakeClock()
    ticks = iter(range(100))
    fake.now = lambda: next(ticks)
    assert benchmark._warm(fake, lambda: None, watch()) == 1e-9


def test_the_first_call_is_timed_once_and_keeps_its_answer():
    fake = FakeClock()

    def compiled(x):
        fake.spend(3.0)
        x += 1
        return x * 2

    x = torch.ones(2)
    took, (answer,), (changed,) = benchmark._first_call(fake, compiled, (x,), 0)
    assert took == 3.0 and answer.tolist() == [4.0, 4.0] and fake.samples == 1
    assert changed.tolist() == [2.0, 2.0] and x.tolist() == [1.0, 1.0]


# --------------------------------------------------------------------------- the rounds


def timed(a, b, budget, precision=0.004, seed=0, seen=None):
    fake = FakeClock()
    calls = (lambda: fake.spend(a())), (lambda: fake.spend(b()))
    limits = budget, precision, seed
    found, ended = benchmark._rounds(fake, calls, [2e-4, 1e-4], limits, seen or watch())
    assert ended is False
    return found, fake


def test_exact_times_are_enough_after_fifteen_rounds_at_most():
    found, fake = timed(lambda: 2e-4, lambda: 1e-4, 100)
    assert len(found) == 11 and all(r.clean for r in found)
    assert all(r.a_s == pytest.approx(2e-4) for r in found)
    assert all(r.b_s == pytest.approx(1e-4) for r in found)
    assert fake.now() == pytest.approx(11 * 2 * 8e-3, rel=0.1)


def test_noise_takes_the_whole_budget_and_six_rounds_in_any_case():
    draw = random.Random(1)
    found, fake = timed(lambda: draw.uniform(1e-4, 9e-4), lambda: 1e-4, 0.5, 1e-6)
    assert fake.now() >= 0.5 and len(found) > 11
    least, _ = timed(lambda: 2e-4, lambda: 1e-4, 1e-9)
    assert len(least) == 6


def test_the_order_is_drawn_and_the_seed_decides_it():
    one, _ = timed(lambda: 2e-4, lambda: 1e-4, 1e-9, seed=4)
    coin = random.Random(4)
    assert [r.a_first for r in one] == [coin.random() < 0.5 for _ in range(6)]


def test_the_side_that_goes_first_goes_first():
    order = []
    fake = FakeClock()
    calls = (lambda: order.append("a")), (lambda: order.append("b"))
    found, _ = benchmark._rounds(fake, calls, [1.0, 1.0], (1e-9, 0.01, 0), watch())
    for i, each in enumerate(found):  # two samples of one call in a block
        both = order[4 * i : 4 * i + 4]
        assert both == list("aabb" if each.a_first else "bbaa")


def test_a_disturbed_or_recompiled_round_is_not_clean(monkeypatch):
    waits = {3: 0.021, 5: 0.02}  # the share waited in these blocks
    blocks = iter(range(1000))

    def block(fake, call, plan):
        call()
        return timing.Block(1e-3, waits.get(next(blocks), 0.0))

    monkeypatch.setattr(benchmark, "block", block)
    seen = watch()
    calls = iter(range(1000))

    def b():
        if next(calls) == 4:
            seen.compiles += 1
        return 1e-4

    found, _ = timed(lambda: 1e-4, b, 1e-9, seen=seen)
    assert [r.clean for r in found] == [True, False, True, True, False, True]


def test_a_disturbed_machine_gets_the_whole_budget(monkeypatch):
    def block(fake, call, plan):
        call()
        return timing.Block(1e-3, 0.5)

    monkeypatch.setattr(benchmark, "block", block)
    found, fake = timed(lambda: 1e-3, lambda: 1e-3, 0.1)
    assert not any(r.clean for r in found) and fake.now() >= 0.1 and len(found) >= 50


def test_progress_is_of_the_budget_in_seconds(monkeypatch):
    said = []

    class Progress:
        def __init__(self, *given):
            said.append(given)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def at(self, done):
            said.append(done)

    monkeypatch.setattr(benchmark, "Progress", Progress)
    _, fake = timed(lambda: 2e-4, lambda: 1e-4, 0.001)
    assert said[0] == ("timing", 0.001, "s") and said[-1] == fake.now()
    assert len(said) == 7


# ---------------------------------------------------------------------------- the notes


def test_what_the_compiler_did_is_said(monkeypatch):
    monkeypatch.setattr(benchmark.compat, "captured", lambda _: False)

    def notes(first, timed):
        return [*benchmark._watch_notes(first, timed, print)]

    assert notes(watch(), watch()) == []
    assert notes(watch(), watch(compiles=1)) == [
        "recompiled while being timed (torch gives no reason): those rounds count as "
        "disturbed"
    ]
    (said,) = notes(watch(), watch(compiles=1, reasons=("x", "y")))
    assert "(x; y)" in said
    assert notes(watch(graph_breaks=2), watch()) == ["2 graph breaks: see graphs()"]
    assert notes(watch(graphs=0), watch(graphs=5)) == [
        "nothing was captured: this is eager against eager"
    ]
    for pair in ((True, False), (False, True)):
        (said,) = notes(*(watch(limit_hit=hit) for hit in pair))
        assert said.startswith("the recompile limit was hit")
    assert notes(watch(ignored=("a", "b")), watch(ignored=("b",))) == [
        *("the mode was ignored here: a", "the mode was ignored here: b")
    ]
    monkeypatch.setattr(benchmark.compat, "captured", lambda _: True)
    assert notes(watch(graphs=0), watch()) == []


def test_what_disturbed_the_timing_is_said():
    def notes(clean, others, faults=None, ended=False):
        found = [Round(1, 1, True, True)] * clean + [Round(1, 1, True, False)] * others
        return [*benchmark._timing_notes(found, faults, ended)]

    assert notes(14, 16) == [
        "other processes disturbed most rounds: close them and repeat"
    ]
    assert notes(14, 14) == notes(15, 100) == notes(14, 15) == []
    many, few = Faults(1000, 0.9), Faults(0, 0.0)
    for faults in ((many, few), (few, many)):
        (said,) = notes(20, 0, faults)
        assert said.startswith("page faults dominate")
    assert notes(20, 0, (few, few)) == []


@pytest.mark.parametrize(
    ("found", "peaks"), [((5, 7), (5, 7)), ((None, 7), None), ((5, None), None)]
)
def test_peaks_are_known_for_both_sides_or_not_at_all(monkeypatch, found, peaks):
    answers, asked = iter(found), []

    def peak_bytes(call, device):
        asked.append((call, device))
        return next(answers)

    monkeypatch.setattr(benchmark, "peak_bytes", peak_bytes)
    assert benchmark._peaks((print, len), "cpu") == peaks
    assert asked == [(print, "cpu"), (len, "cpu")]


def test_odd_numbers_in_an_input_are_said_by_its_position():
    def notes(*inputs):
        return [*benchmark._input_notes(inputs)]

    good, zeros = torch.ones(200), torch.zeros(200)
    assert notes(good, zeros) == ["input 1 is all zeros: use random numbers"]
    one = zeros.clone()
    one[7] = 1
    assert notes(one, torch.zeros(1), torch.arange(3) * 0) == []
    tiny = good.clone()
    tiny[:3] = 1e-39
    assert notes(tiny) == ["input 0 holds denormal numbers, which are slow"]
    tiny[:1] = 1
    assert notes(tiny) == []  # one in a hundred
    for bad in (float("nan"), float("inf")):
        odd = good.clone()
        odd[5] = bad
        assert notes(odd) == ["input 0 holds NaN or infinity"]
    assert notes(torch.full((9,), 1e-310, dtype=torch.double))[0].endswith("slow")
    large = torch.ones(65536 * 3)
    large[1::3] = float("nan")
    assert notes(large) == []  # a sample of every third
    large[0] = float("nan")
    assert notes(large) == ["input 0 holds NaN or infinity"]


# ------------------------------------------------------------------------- all together


def compared(a_s=2e-4, b_s=1e-4, **options):
    fake = FakeClock()
    usual = {"clock": fake, "budget": 0.2, "same_answer": False}
    return benchmark.compare(
        spend(fake, a_s), spend(fake, 1.0, b_s), torch.ones(4), **usual | options
    )


def test_a_comparison_holds_what_was_measured(monkeypatch):
    pages, peaks = iter([3, 4]), iter([64, 32])
    monkeypatch.setattr(benchmark, "page_faults", lambda _: Faults(next(pages), 0.0))
    monkeypatch.setattr(benchmark, "peak_bytes", lambda *_: next(peaks))
    found = compared(names=("old", "new"))
    assert found.names == ("old", "new") and found.verdict == "faster"
    assert found.speedup == pytest.approx(2)
    assert found.interval == pytest.approx((2, 2))
    assert found.confidence == pytest.approx(1 - 2 * (1 + 11) / 2**11)
    assert found.median_s == pytest.approx((2e-4, 1e-4))
    assert found.cold_start_s == pytest.approx(1.0)
    assert (found.compiles, found.graphs, found.graph_breaks) == (0, 0, 0)
    assert found.page_faults == (3, 4) and found.peak_bytes == (64, 32)
    assert found.matches is None and found.max_error == 0 and found.error64 is None
    assert found.notes == (
        "two different computations, on purpose",
        "nothing was captured: this is eager against eager",
    )
    assert len(found.rounds) == 11 and found.threads == torch.get_num_threads()
    assert (found.device, found.scope) == ("cpu", "this process")


def test_an_interrupted_comparison_says_so():
    fake, calls = FakeClock(), iter(range(1000))

    def tired(x):
        fake.spend(1e-2)
        if next(calls) == 40:
            raise KeyboardInterrupt
        return x

    found = benchmark.compare(
        tired, spend(fake, 1e-2), torch.ones(4), clock=fake, precision=1e-12, budget=9,
        same_answer=False,
    )  # fmt: skip
    assert found.interrupted is True and not compared().interrupted
    assert "interrupted after" in str(found)


def test_what_the_functions_hold_is_put_back():
    one, two = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    benchmark.compare(one, two, torch.randn(8, 2), budget=1e-3)
    assert int(one.num_batches_tracked) == int(two.num_batches_tracked) == 0


def test_the_answers_are_compared_unless_told_otherwise():
    found = compared(same_answer=True)
    assert found.matches is True
    assert "on purpose" not in str(found)


def test_processes_get_the_options(monkeypatch):
    seen = []
    from helpers import benchmark

    monkeypatch.setattr(benchmark, "in_processes", lambda *given: seen.append(given))
    benchmark.compare(print, processes=5, budget=3, seed=4, rtol=0.1, names=("a", "b"))
    ((made, compiled, count, limits, names),) = seen
    assert (made, compiled, count, names) == (print, None, 5, ("a", "b"))
    assert limits == {
        "budget": 3, "precision": 0.004, "rtol": 0.1, "atol": None,
        "same_answer": True, "seed": 4,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["budget", "precision", "processes"])
def test_limits_are_above_zero(name):
    for value in (0, -1):
        with pytest.raises(ValueError, match="must be above 0"):
            benchmark.compare(print, print, **{name: value})


# -------------------------------------------------------------------------- bandwidth


def test_bandwidth_is_the_working_set_over_the_time_of_a_copy(monkeypatch):
    asked = []

    def for_device(device):
        asked.append(device)
        return FakeClock(extra=lambda sample: 1e-3 if sample else 5.0)

    monkeypatch.setattr(timing, "clock_for", for_device)
    found = copy_bandwidth(working_set=8 << 10, budget=1e-9)
    assert found == Bandwidth(pytest.approx(8192 / 1e-3), 8192, "cpu")
    assert asked == ["cpu"]


def test_bandwidth_takes_the_lower_quartile_of_its_blocks(monkeypatch):
    fake = FakeClock()
    monkeypatch.setattr(timing, "clock_for", lambda _: fake)
    times = iter([8.0, 2.0, 5.0, 3.0, 9.0, 1.0])
    plans = []

    def block(clock_, call, plan):
        plans.append(plan)
        assert call.func.__self__.shape == (1024,) and call.args[0].sum() == 1024
        fake.spend(1.0)
        return timing.Block(next(times), 0.0)

    monkeypatch.setattr(timing, "block", block)
    monkeypatch.setattr(timing.Plan, "for_call", lambda *given: given)
    asked = inspect.signature(copy_bandwidth).parameters
    assert [each.default for each in asked.values()] == [512 * 2**20, "cpu", 1.0]
    found = copy_bandwidth(working_set=8192, budget=1.0)
    assert found.bytes_per_s == 8192 / 3.0 and len(plans) == 5
    assert plans[0] == (0.0, fake.sample_s)
    times = iter([8.0, 2.0, 5.0, 3.0, 9.0, 1.0])
    assert copy_bandwidth(8192, budget=5.5).bytes_per_s == 8192 / 2.0
    assert len(plans) == 11


def test_bandwidth_as_text():
    found = Bandwidth(12.345e9, 512 << 20, "cpu")
    assert str(found) == repr(found) == "copying 512 MiB in all: ⟨12.3 GB/s⟩"
    assert Bandwidth.from_json(found.to_json()) == found


def test_an_interrupt_while_timing_keeps_the_rounds_that_give_an_interval():
    fake, left = FakeClock(), iter(range(1000))

    def call():  # sixteen times a round: eight samples of each side
        fake.spend(1e-3)
        if next(left) == 16 * 8 + 3:
            raise KeyboardInterrupt

    limits = (9.0, 1e-12, 0)
    found, ended = benchmark._rounds(fake, (call, call), [1e-3] * 2, limits, watch())
    assert len(found) == 8 and ended is True
    assert [*benchmark._timing_notes([Round(1, 1, True, True)] * 20, None, True)] == [
        "interrupted after 20 rounds"
    ]


def test_an_interrupt_before_the_sixth_round_says_how_many_are_needed():
    fake, left = FakeClock(), iter(range(30))

    def call():
        fake.spend(1e-3)
        if next(left) == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="1 round timed, 6 are needed"):
        benchmark._rounds(fake, (call, call), [1e-3, 1e-3], (9.0, 1e-12, 0), watch())
