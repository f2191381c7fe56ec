"""compare() and sweep(): known ratios on a fake clock, real compiles, bad input."""

import collections
import dataclasses
import gc
import os
import random
import types
import warnings

import pytest
import torch

from helpers import benchmark, correctness
from helpers.benchmark import Comparison, combine, compare
from helpers.errors import InputError
from helpers.sweeps import sweep
from tests.test_clock import FakeClock

QUICK = {"budget": 0.2}


@pytest.fixture(autouse=True)
def _no_leftovers():
    """Nothing a comparison does may outlive it, whatever the test did to it."""
    enabled = gc.isenabled()
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    yield
    assert gc.isenabled() == enabled
    if cores is not None:
        assert os.sched_getaffinity(0) == cores


@pytest.fixture(autouse=True)
def _calm(monkeypatch):
    """What else this machine does must not count on a clock that is not its own."""
    monkeypatch.setattr("helpers.timing.waiting_seconds", lambda: 0.0)


def spending(clock, seconds, noise=None):
    """Return a function that takes *seconds* of the fake clock's time."""

    def f(x):
        clock.spend(seconds * (noise() if noise else 1))
        return x + 1

    return f


def fake(ratio, noise=None, seed=0, limit=2, **options):
    clock = FakeClock()
    draw = random.Random(seed)
    shaky = (lambda: noise(draw)) if noise else None
    a, b = spending(clock, 2e-4 * ratio, shaky), spending(clock, 2e-4, shaky)
    return compare(a, b, torch.ones(4), clock=clock, budget=limit, **options)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (3.0, "faster"),
        (1.0, "same"),
        (1.005, "same"),
        (0.5, "slower"),
        (1.02, "faster"),
    ],
)
def test_known_ratio(ratio, verdict):
    found = fake(ratio)
    assert found.speedup == pytest.approx(ratio)
    assert found.verdict == verdict
    assert found.median_s == pytest.approx((2e-4 * ratio, 2e-4))


@pytest.mark.parametrize("seed", range(5))
def test_noise_that_hits_both_sides_leaves_the_ratio(seed):
    found = fake(2.0, lambda draw: 1 + abs(draw.gauss(0, 0.3)), seed=seed)
    low, high = found.interval
    assert low * 0.99 <= 2.0 <= high * 1.01


def test_noise_too_great_is_cannot_tell():
    found = fake(1.02, lambda draw: draw.uniform(0.5, 2), limit=0.2)
    low, high = found.interval
    assert found.verdict == "cannot tell"
    assert low < 1.02 < high


def test_the_budget_ends_it_and_precision_ends_it_earlier():
    shaky = fake(1.0, lambda draw: draw.uniform(0.5, 2), precision=1e-9)
    exact = fake(1.0)
    assert sum(r.a_s for r in exact.rounds) < sum(r.a_s for r in shaky.rounds)
    assert len(exact.rounds) >= 11


def test_both_orders_occur_and_the_seed_decides_them():
    one, two = fake(1.0), fake(1.0)
    assert {r.a_first for r in one.rounds} == {True, False}
    assert [r.a_first for r in one.rounds] == [r.a_first for r in two.rounds]


def test_disturbed_rounds_are_left_out(monkeypatch):
    """Rounds in which our threads had to wait do not count, if enough are left."""
    waits = iter(range(10**9))
    monkeypatch.setattr(
        "helpers.timing.waiting_seconds", lambda: next(waits) % 8 // 7 * 1.0
    )
    found = fake(2.0)
    assert {r.clean for r in found.rounds} == {True, False}
    assert found.speedup == pytest.approx(2.0)


def test_a_machine_always_disturbed_is_said(monkeypatch):
    waits = iter(range(10**9))
    monkeypatch.setattr("helpers.timing.waiting_seconds", lambda: float(next(waits)))
    found = fake(2.0)
    assert not any(r.clean for r in found.rounds)
    assert any("other processes" in note for note in found.notes)


# ------------------------------------------------------------------ real compiles


def chain(x):
    return torch.relu(x * 2 + 1) * 0.5


def test_a_real_compile():
    x = torch.randn(1 << 18)
    found = compare(chain, torch.compile(chain), x, **QUICK)
    assert (found.graphs, found.graph_breaks, found.compiles) == (1, 0, 1)
    assert found.matches and found.max_error < 1e-5 and max(found.error64) < 1e-5
    assert found.cold_start_s > 5 * found.median_s[1]
    assert not any("captured" in note for note in found.notes)
    assert found.machine.torch == torch.__version__


def test_warm_function_has_no_compiles_and_is_still_known_to_be_captured():
    x, compiled = torch.randn(512), torch.compile(chain)
    compiled(x)
    found = compare(chain, compiled, x, **QUICK)
    assert found.compiles == 0
    assert not any("captured" in note for note in found.notes)


def test_graph_breaks_are_said():
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    found = compare(broken, torch.compile(broken), torch.randn(64), **QUICK)
    assert found.graphs == 2 and found.graph_breaks == 1
    assert any("1 graph break" in note for note in found.notes)


def test_nothing_captured_is_said():
    found = compare(chain, chain, torch.randn(64), **QUICK)
    assert any("nothing was captured" in note for note in found.notes)

    @torch.compiler.disable
    def never(x):
        return x + 1

    def outer(x):
        return never(x)

    found = compare(outer, torch.compile(outer), torch.randn(64), **QUICK)
    assert any("nothing was captured" in note for note in found.notes)


def test_a_recompile_while_timing_is_said_with_its_reason():
    # The collector is off while rounds are timed and at no other moment.
    state = {"timed": False}

    def body(x):
        return x * 2 if state["timed"] else x + x

    compiled = torch.compile(body)

    def counted(x):
        state["timed"] = not gc.isenabled()
        return compiled(x)

    def eager(x):
        return x * 2

    found = compare(eager, counted, torch.randn(1 << 12), budget=0.5)
    said = [note for note in found.notes if "recompiled while being timed" in note]
    assert said
    assert "timed" in said[0]
    assert not found.rounds[0].clean


def test_the_recompile_limit_is_said():
    def many(x, n):
        return x * n

    compiled = torch.compile(many, dynamic=False)

    def burst(x):
        for n in range(2, 14):
            y = compiled(x, n)
        return y

    def eager(x):
        return x * 13

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare(eager, burst, torch.randn(64), **QUICK)
    assert any("recompile limit" in note for note in found.notes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the mode works on CUDA")
def test_a_mode_that_is_ignored_on_a_cpu_is_said():
    fast = torch.compile(chain, mode="reduce-overhead")
    found = compare(chain, fast, torch.randn(96), **QUICK)
    assert any("mode was ignored" in note for note in found.notes)


def test_different_answers_are_said():
    found = compare(
        chain, torch.compile(lambda x: chain(x) + 1), torch.randn(64), **QUICK
    )
    assert found.matches is False and found.max_error == pytest.approx(1, rel=1e-3)
    assert any("results differ" in note for note in found.notes)
    assert "DIFFER" in str(found)


def test_different_shapes_and_dtypes_differ():
    x = torch.randn(64)
    for wrong in (lambda x: chain(x)[:3], lambda x: chain(x).double()):
        assert compare(chain, wrong, x, **QUICK).matches is False


def test_a_looser_tolerance_is_taken():
    x = torch.ones(64)
    off = compare(chain, lambda x: chain(x) + 1e-3, x, **QUICK)
    near = compare(chain, lambda x: chain(x) + 1e-3, x, rtol=0, atol=1e-2, **QUICK)
    assert (off.matches, near.matches) == (False, True)


def test_nearer_to_float64_than_eager_is_a_match():
    def eager(x):
        return (x.float() + 1e-3).float() - 1e-3 + 1e-3 * x

    def precise(x):
        return ((x.double() + 1e-3) - 1e-3 + 1e-3 * x.double()).to(x.dtype)

    assert compare(eager, precise, torch.randn(64), **QUICK).matches


def test_random_numbers_are_not_compared():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    correctness.run("eager", torch.rand_like, (torch.ones(64),), 0)
    assert torch.equal(torch.get_rng_state(), state)
    found = compare(torch.rand_like, torch.rand_like, torch.ones(64), **QUICK)
    assert found.matches is None
    assert any("random" in note for note in found.notes)


def test_last_digits_that_vary_are_not_random_numbers():
    """On a GPU, atomic additions come in another order in every call."""
    calls = iter(range(10**9))

    def wavers(x):
        return x + next(calls) % 2 * 1e-7

    assert compare(wavers, wavers, torch.rand(64), **QUICK).matches is True


def test_the_reader_s_random_numbers_go_on_as_if_nothing_had_been_timed():
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    compare(torch.rand_like, torch.rand_like, torch.ones(64), **QUICK)
    assert torch.equal(torch.rand(4), wanted)


def test_copies_cost_what_the_inputs_cost():
    x = torch.randn(8, 16)
    for view in (
        x,
        x.t(),
        x[:, ::2],
        x[2:, 1:],
        x[0].expand(4, 16),
        x[:0, ::2],
        x[0, 0],
    ):
        a, b = clone((view, [view]))
        assert a is b[0] and torch.equal(a, view) and a.stride() == view.stride()
        assert a.data_ptr() != view.data_ptr() or not a.numel()


@dataclasses.dataclass(frozen=True)
class Output:
    logits: torch.Tensor
    size: int = 3


def test_dataclasses_and_odd_dicts_are_copied_and_compared():
    x = Output(torch.ones(8, requires_grad=True))
    odd = collections.defaultdict(list, {"a": [torch.ones(3)]})
    for given in (x, odd):
        copied = clone(given)
        assert type(copied) is type(given)
        (a,), (b,) = tensors(given), tensors(copied)
        assert a.data_ptr() != b.data_ptr() and a.requires_grad == b.requires_grad
    (found,), _ = correctness.run("eager", lambda o: Output(o.logits * 2), (x,), 0)
    assert not found.requires_grad and torch.equal(found, torch.full((8,), 2.0))


def test_imaginary_parts_count():
    found = compare(
        torch.fft.fft, lambda x: torch.fft.fft(x) + 1j, torch.randn(8), **QUICK
    )
    assert found.matches is False and found.max_error == pytest.approx(1, rel=1e-3)


def test_not_a_number_is_no_match_for_infinity():
    def over(x):
        return x.half() * 60000 * 60000

    bad = compare(over, lambda x: over(x) * 0, torch.rand(8).half() + 1, **QUICK)
    assert bad.matches is False


def test_a_function_that_changes_its_input_leaves_the_reader_s_alone():
    x = torch.zeros(64) + 1

    def grow(x):
        return x.mul_(1.0001)

    found = compare(grow, torch.compile(grow), x, **QUICK)
    assert torch.equal(x, torch.ones(64))
    assert found.matches and any("changes its inputs" in note for note in found.notes)


def test_gradients_and_nested_outputs():
    x = torch.randn(64, requires_grad=True)

    def nested(x):
        return {"a": [x * 2], "b": (x + 1, None)}

    found = compare(nested, torch.compile(nested), x, **QUICK)
    assert found.matches and x.grad is None


@pytest.mark.parametrize(
    ("x", "word"),
    [
        (torch.zeros(64), "zeros"),
        (torch.full((64,), 1e-40), "denormal"),
        (torch.tensor([1.0, float("nan")]), "NaN"),
    ],
)
def test_odd_inputs_are_said(x, word):
    assert any(word in note for note in benchmark._input_notes((x,)))


def test_usual_inputs_are_not_odd():
    halves, doubles = (
        torch.full((64,), 1e-6).half(),
        torch.full((64,), 1e-200, dtype=torch.double),
    )
    usual = (torch.randn(64), torch.arange(3), halves, doubles)
    assert [*benchmark._input_notes(usual)] == []


# ---------------------------------------------------------------------- bad input


def failing(x):
    raise RuntimeError("no such thing\nsecond line")


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (failing, chain, "eager function raised RuntimeError: no such thing"),
        (chain, failing, "doctor"),
        (failing, torch.compile(failing), "eager function raised RuntimeError: no"),
        (lambda x: None, lambda x: None, "eager function returned no tensor"),
        (chain, lambda x: None, "compiled function returned no tensor"),
        (lambda x: 3.0, lambda x: 3.0, "return a result"),
        (chain, None, "two functions"),
        (chain, torch.ones(3), "two functions"),
    ],
)
def test_bad_functions(a, b, said):
    with pytest.raises(InputError, match=said):
        compare(a, b, torch.randn(8), **QUICK)


def test_devices_that_cannot_be_timed(monkeypatch):
    with pytest.raises(InputError, match="2 devices"):
        compare(chain, chain, torch.ones(2), torch.ones(2, device="meta"))
    with pytest.raises(InputError, match="meta cannot be timed here"):
        compare(chain, chain, torch.ones(2, device="meta"))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        agree,
        "tensors",
        lambda _: iter([types.SimpleNamespace(device=torch.device("cuda:1"))]),
    )
    with pytest.raises(InputError, match=r"torch\.cuda\.set_device\(1\)"):
        correctness.device_of(())


@pytest.mark.parametrize("bad", [{"budget": 0}, {"precision": -1}, {"processes": 0}])
def test_bad_limits(bad):
    with pytest.raises(ValueError, match="above 0"):
        compare(chain, chain, torch.ones(2), **bad)


def test_unknown_mode_is_torch_s_own_error():
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        torch.compile(chain, mode="fastest")


def test_no_compiler(monkeypatch):
    from torch._inductor import cpp_builder, exc

    def none(*_, **__):
        raise exc.InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", none)
    torch.compiler.reset()

    def new(x):
        return torch.cos(x) * 3 + 2

    with (
        torch._inductor.utils.fresh_cache(),
        pytest.raises(InputError, match="doctor"),
    ):
        compare(new, torch.compile(new), torch.randn(33))
    torch.compiler.reset()


# -------------------------------------------------------------------------- sweep


def points(clock, fail_at=None, error=KeyboardInterrupt):
    made = []

    def make(n):
        if n == fail_at:
            raise error(f"at {n}")
        made.append(n)
        return spending(clock, 1e-4 * n), spending(clock, 1e-4), torch.ones(4)

    return make, made


def run(make, clock, path=None, values=(1, 2, 4)):
    return sweep(make, values, parameter="size", clock=clock, path=path)


def test_sweep():
    clock = FakeClock()
    make, _ = points(clock)
    found = run(make, clock)
    assert found.complete and [p.value for p in found.points] == [1, 2, 4]
    assert [p.comparison.speedup for p in found.points] == pytest.approx([1, 2, 4])


def test_an_interrupted_sweep_keeps_its_points_and_goes_on(tmp_path):
    clock, path = FakeClock(), tmp_path / "sweep.json"
    make, _ = points(clock, fail_at=4)
    part = run(make, clock, path)
    assert not part.complete and [p.value for p in part.points] == [1, 2]
    assert "interrupted" in str(part)
    make, made = points(clock)
    whole = run(make, clock, path)
    assert whole.complete and made == [4]
    assert whole.points[:2] == part.points


def test_an_interrupt_while_saving_keeps_the_point(tmp_path, monkeypatch):
    clock = FakeClock()

    def tired(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("helpers.results.save", tired)
    part = run(points(clock)[0], clock, tmp_path / "sweep.json")
    assert [p.value for p in part.points] == [1] and not part.complete


def test_fewer_values_leave_the_others_in_the_file(tmp_path):
    clock, path = FakeClock(), tmp_path / "sweep.json"
    run(points(clock)[0], clock, path)
    make, made = points(clock)
    found = run(make, clock, path, values=(4, 8))
    assert made == [8] and [p.value for p in found.points] == [4, 8]
    assert sorted(p.value for p in load(path).points) == [1, 2, 4, 8]


def test_a_failing_point_keeps_the_others():
    clock = FakeClock()
    make, _ = points(clock, fail_at=2, error=ValueError)
    with pytest.raises(ValueError, match="at 2") as caught:
        run(make, clock)
    assert [p.value for p in caught.value.sweep.points] == [1]
    assert "size 2" in caught.value.__notes__[0]


def test_a_full_disk_does_not_stop_a_sweep(tmp_path):
    clock = FakeClock()
    make, _ = points(clock)
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.warns(UserWarning, match="goes on in memory"):
        found = sweep(
            make, [1, 2], parameter="size", clock=clock, path=blocked / "s.json"
        )
    assert found.complete


def test_another_sweep_s_file_is_not_overwritten(tmp_path):
    clock, path = FakeClock(), tmp_path / "sweep.json"
    make, _ = points(clock)
    run(make, clock, path)
    with pytest.raises(ResultError, match="another sweep"):
        sweep(make, [1], parameter="batch", clock=clock, path=path)
    path.write_text("{")
    with pytest.raises(ResultError, match="damaged"):
        run(make, clock, path)


@pytest.mark.parametrize("values", [[], [1, 1]])
def test_bad_sweep_values(values):
    with pytest.raises(ValueError, match="value"):
        sweep(lambda n: None, values, parameter="size")


def test_values_that_no_file_can_hold():
    with pytest.raises(TypeError, match="tolist"):
        sweep(lambda n: None, torch.arange(3), parameter="size")


# ---------------------------------------------------------------------- processes


def test_combining_processes_widens_the_interval_to_their_spread():
    runs = tuple(
        dataclasses.replace(fake(1.0), speedup=s, interval=(s * 0.999, s * 1.001))
        for s in (2.0, 2.2, 1.9, 2.1, 2.5)
    )
    found = combine(runs, ("a", "b"))
    assert found.speedup == 2.1 and found.interval == (1.9, 2.5)
    assert found.confidence == 0.9375 and found.scope == "5 fresh processes"
    assert found.verdict == "faster"


def test_one_process_with_another_answer_is_enough():
    good = fake(1.0)
    bad = dataclasses.replace(good, matches=False, max_error=3.0, speedup=9.0)
    found = combine((good, good, bad), ("a", "b"))
    assert found.matches is False and found.max_error == 3


def test_an_interrupt_keeps_the_processes_that_are_done(monkeypatch):
    runs = iter([fake(1.0), fake(2.0)])

    def child(_):
        if (found := next(runs, None)) is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr("helpers.benchmark._child", child)
    assert compare(make_pair, processes=5).scope == "2 fresh processes"
    with pytest.raises(KeyboardInterrupt):
        compare(make_pair, processes=5)


def make_pair():
    import torch

    def f(x):
        return torch.sin(x) + 1

    return f, torch.compile(f, backend="eager"), torch.ones(8)


def make_different():
    import pathlib

    import torch

    x = torch.ones(len(pathlib.Path("here.txt").read_text()))
    return lambda x: x + 1, lambda x: x + 2, x


def test_options_and_the_folder_reach_the_processes(tmp_path, monkeypatch):
    (tmp_path / "here.txt").write_text("in the reader's folder")
    monkeypatch.chdir(tmp_path)
    found = compare(make_different, processes=2, budget=0.1, atol=2.0)
    assert found.matches is True and found.max_error == 1


def test_fresh_processes():
    found = compare(make_pair, processes=2, budget=0.1)
    assert found.scope == "2 fresh processes" and found.confidence == 0.5
    assert found.compiles == 1 and found.matches


def test_processes_say_what_they_need():
    for a, b in ((chain, chain), (lambda: 1, None), (len, None)):
        with pytest.raises(InputError, match="self-contained function"):
            compare(a, b, processes=2)

    def outside():
        return chain, chain, torch.ones(8)

    with pytest.raises(InputError, match="fresh process failed"):
        compare(outside, processes=2, budget=0.1)


# ---------------------------------------------------------------------- interrupts


def test_an_interrupt_in_the_middle_puts_everything_back():
    calls = iter(range(200))

    def tired(x):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return x + 1

    with pytest.raises(KeyboardInterrupt):
        compare(chain, tired, torch.ones(1 << 12))


def test_bandwidth():
    from helpers.timing import copy_bandwidth

    found = copy_bandwidth(working_set=16 << 20, budget=0.1)
    assert 1e8 < found.bytes_per_s < 1e13
    assert "16 MiB" in str(found)


def tired(monkeypatch, rounds):
    """Let Ctrl-C come after some rounds."""
    whole, left = benchmark._round, iter(range(rounds))

    def shorter(*given):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr(benchmark, "_round", shorter)


def test_an_interrupt_keeps_the_rounds_that_are_timed(monkeypatch):
    tired(monkeypatch, 7)
    found = fake(2.0)
    assert found.interrupted and found.verdict == "faster"
    assert len(found.rounds) == 7
    assert "interrupted after 7 rounds" in found.notes
    assert found.page_faults is found.peak_bytes is None
    assert Comparison.from_json(found.to_json()) == found
    assert "interrupted" in str(found)


def test_an_interrupt_before_there_is_an_interval_says_so(monkeypatch):
    tired(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt, match="3 rounds timed, 6 are needed"):
        fake(2.0)


@pytest.mark.parametrize(("rounds", "kept"), [(11 + 7, 2), (11 + 4, 1)])
def test_a_comparison_that_is_interrupted_ends_its_sweep(monkeypatch, rounds, kept):
    tired(monkeypatch, rounds)  # 11 are enough for the first point
    clock = FakeClock()
    found = run(points(clock)[0], clock)
    assert not found.complete and len(found.points) == kept


def test_an_interrupt_after_the_rounds_keeps_them(monkeypatch):
    def ctrl_c(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("helpers.benchmark.peak_bytes", ctrl_c)
    found = fake(2.0)
    assert found.interrupted and found.verdict == "faster"
