"""Do two functions agree?  Asked directly, without timing anything."""

import collections
import dataclasses
import math
import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import correctness
from helpers.errors import InputError

EVERY_BIT = {"rtol": 0.0, "atol": 0.0}
floats = st.floats(-1e6, 1e6, width=32)
numbers = st.lists(floats, min_size=1, max_size=20)


def asked(eager, compiled, *inputs, **options):
    """Return what `compare` is told of the answers."""
    out, changed = correctness.run("compiled", compiled, inputs, 0)
    return correctness.agreement(eager, inputs, out, changed, **options)


def test_the_same_function_agrees_in_every_bit():
    found = asked(torch.sin, torch.sin, torch.ones(8), **EVERY_BIT)
    assert found.matches is True and found.max_error == 0 and found.notes == ()
    error = abs(math.sin(1) - float(torch.sin(torch.ones(1))))
    assert found.error64 == pytest.approx((error, error))


@given(numbers, st.integers(0, 19), st.floats(0.125, 1e3, width=16))
def test_the_error_is_the_largest_difference(values, at, off):
    x = torch.tensor(values, dtype=torch.float64)
    y = x.clone()
    y[at % len(values)] += off
    there = correctness._distance([x], [y])
    assert there == correctness._distance([y], [x]) == pytest.approx(off, rel=1e-6)
    assert correctness._distance([x], [x]) == 0
    assert not correctness._close([x], [y], 0.0, 0.0)
    assert correctness._close([x], [y], 0.0, there) and correctness._close(
        [x], [x], None, None
    )
    assert not correctness._close([x], [y], 0.0, there * 0.99)


@given(numbers)
def test_a_copy_is_equal_and_apart(values):
    x = torch.tensor(values)
    copied = clone(x)
    assert torch.equal(copied, x) and copied.data_ptr() != x.data_ptr()
    copied += 1
    assert x.tolist() == values


def test_the_last_tensor_of_several_counts():
    def eager(x):
        return x, x + 1

    found = asked(eager, lambda x: (x, x + 3), torch.ones(4))
    assert found.matches is False and found.max_error == 2
    assert found.error64 == (0, 2)
    assert found.notes == (
        "results differ: the speed-up is that of another computation",
    )


def test_one_limit_alone_leaves_the_other_at_zero():
    x = torch.tensor([100.0, 0.0])
    off = torch.tensor([100.5, 0.0])
    shifted = torch.tensor([100.0, 0.5])
    assert correctness._close([x], [off], 0.01, None)
    assert not correctness._close([x], [shifted], 0.01, None)
    assert correctness._close([x], [shifted], None, 0.5)
    assert not correctness._close([x], [shifted], None, 0.4)
    assert not correctness._close([x], [x + 1e-3], None, None)


def test_not_a_number_agrees_with_itself_only():
    nan, inf = torch.tensor([math.nan, 1.0]), torch.tensor([math.inf, 1.0])
    assert (
        correctness._close([nan], [nan], None, None)
        and correctness._distance([nan], [nan]) == 0
    )
    assert correctness._distance([inf], [inf]) == 0
    for other in (inf, torch.ones(2)):
        assert correctness._distance([nan], [other]) == math.inf
        assert not correctness._close([nan], [other], None, None)
    assert correctness._distance([inf], [torch.ones(2)]) == math.inf


def test_other_forms_are_infinitely_far():
    x = torch.ones(3)
    for other in ([], [x, x], [x[:2]], [x.reshape(1, 3)]):
        assert correctness._distance([x], other) == math.inf
        assert not correctness._close([x], other, None, None)
    assert not correctness._close([x], [x.double()], None, None)
    assert correctness._distance([x[:0]], [x[:0]]) == 0 and correctness._close(
        [x[:0]], [x[:0]], 0, 0
    )


def test_large_tensors_are_compared_to_their_end(monkeypatch):
    monkeypatch.setattr(correctness, "_PIECE", 4)
    x = torch.zeros(2, 5)
    y = x.clone()
    y[1, 4] = 3
    assert [a.numel() for a, _ in correctness._pieces([x], [y])] == [4, 4, 2]
    assert correctness._distance([x], [y]) == 3
    assert not correctness._close([x], [y], None, None)
    for at, off in ((0, 7.0), (4, 5.0)):  # the largest need not come last
        y.view(-1)[at] = off
        assert correctness._distance([x], [y]) == max(3.0, float(y.max()))


def test_complex_numbers_differ_by_their_absolute_value():
    x = torch.zeros(1, dtype=torch.complex64)
    assert correctness._distance([x], [x + 3 + 4j]) == pytest.approx(5)


# ----------------------------------------------------------------- what is decided


def drift(amount):
    return lambda x: x + amount


def test_further_from_float64_than_twice_eager_is_no_match():
    """Eager is off by 1e-3; a side that is off by 2e-3 is as good, by 3e-3 is not."""

    def eager(x):
        return x if x.dtype == torch.float64 else x + 1e-3

    x = torch.zeros(8)
    for amount, matches in ((1.9e-3, True), (-1.9e-3, True), (2.1e-3, False)):
        found = asked(eager, drift(amount), x)
        assert found.matches is matches
        assert found.error64 == pytest.approx((1e-3, abs(amount)))
    assert asked(eager, drift(1.9e-3), x, atol=1e-4).matches is False
    assert asked(eager, drift(1.9e-3), x, rtol=1e-4).matches is False
    assert asked(eager, drift(1.9e-3), x, float64=False).matches is False
    assert asked(eager, drift(1.9e-3), x, float64=False).error64 is None


def test_nearness_to_float64_is_no_excuse_for_another_form():
    def eager(x):
        return x if x.dtype == torch.float64 else x + 1e-3

    found = asked(eager, lambda x: x.double(), torch.zeros(8))
    assert found.error64[1] == 0 and found.matches is False


def test_where_eager_overflows_only_the_truth_will_do():
    """In float64 this is 25 times its input; in half precision it is infinite."""

    def eager(x):
        return (x * 50_000) * 50 / 1e5 * (x / x)

    x = torch.full((4,), 2.0).half()
    assert eager(x).isinf().all()
    for right in (lambda x: eager(x.float()).half(), eager):
        assert asked(eager, right, x).matches is True
    for wrong in (0.0, 51.0, -math.inf, math.nan):
        found = asked(eager, lambda x, wrong=wrong: torch.full_like(x, wrong), x)
        assert found.matches is False and found.error64[0] == math.inf


def test_random_numbers_are_said_and_nothing_is_decided():
    found = asked(torch.rand_like, torch.rand_like, torch.ones(8))
    assert found == correctness.Agreement(
        None,
        0.0,
        None,
        ("draws random numbers: results were not held against each other",),
    )


def test_the_seed_reaches_the_functions():
    a, b = (
        correctness.run("eager", torch.rand_like, (torch.ones(8),), s)[0]
        for s in (1, 2)
    )
    c, _ = correctness.run("eager", torch.rand_like, (torch.ones(8),), 1)
    assert torch.equal(a[0], c[0]) and not torch.equal(a[0], b[0])


def test_a_changed_input_is_said_and_compared():
    def grow(x):
        x += 1
        return x.sum()

    def other(x):
        found = (x + 1).sum()
        x += 2
        return found

    x = torch.ones(4)
    found = asked(grow, grow, x)
    assert found.matches is True and torch.equal(x, torch.ones(4))
    assert found.notes == ("changes its inputs: each timed call sees other numbers",)
    found = asked(grow, other, x, **EVERY_BIT)
    assert found.matches is False and found.max_error == 0  # of the results


def test_two_computations_on_purpose_are_not_compared():
    assert (
        correctness.NOT_ASKED.matches is None and correctness.NOT_ASKED.error64 is None
    )
    assert correctness.NOT_ASKED.max_error == 0
    assert correctness.NOT_ASKED.notes == ("two different computations, on purpose",)


# ------------------------------------------------------------------------- float64


def test_float64_is_the_function_itself_in_twice_the_width():
    third = torch.tensor([1.0]) / 3
    (wide,) = correctness._in_float64(lambda x: x * 3, (third,), 0)
    assert wide.dtype == torch.float64 and float(wide) == float(third.double() * 3)
    model = torch.nn.Linear(2, 1)
    (wide,) = correctness._in_float64(model, (torch.ones(1, 2),), 0)
    assert wide.dtype == torch.float64
    assert model.weight.dtype == torch.float32  # a copy was widened


def test_integers_stay_integers_on_the_way_to_float64():
    def pick(table, index):
        return table[index]

    index = torch.tensor([1])
    (wide,) = correctness._in_float64(pick, (torch.tensor([1.0, 2.0]), index), 0)
    assert float(wide) == 2 and wide.dtype == torch.float64


def test_float64_is_not_had_where_it_would_say_nothing(monkeypatch):
    def fails(x):
        raise RuntimeError("not in float64")

    x = torch.ones(8)
    assert correctness._in_float64(fails, (x,), 0) is None
    assert correctness._in_float64(lambda x: x.float(), (x,), 0) is None
    assert correctness._in_float64(torch.sin, (x.double(),), 0) is None
    assert correctness._in_float64(lambda x: x + 1, (torch.arange(3),), 0) is None
    monkeypatch.setattr(correctness, "_LARGE", 8)
    assert correctness._in_float64(torch.sin, (x,), 0) is not None
    assert correctness._in_float64(torch.sin, (torch.ones(9),), 0) is None
    weights = torch.nn.Linear(3, 3)  # 12 parameters
    assert correctness._in_float64(weights, (torch.ones(3),), 0) is None


# -------------------------------------------------------------- copies and devices


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Held:
    tensor: torch.Tensor
    kind: type = int


def test_tensors_are_found_and_changed_wherever_they_are_nested():
    one, two, three = torch.ones(1), torch.ones(2), torch.ones(3)
    value = {"x": [one, (two, 5)], "y": Pair(Held(three), None), "z": Held}
    assert [t.numel() for t in tensors(value)] == [1, 2, 3]
    new = correctness.map_tensors(lambda t: t * 2, value)
    assert [t.tolist() for t in tensors(new)] == [
        [2.0],
        [2.0] * 2,
        [2.0] * 3,
    ]
    assert type(new["y"]) is Pair and type(new["y"].a) is Held and new["z"] is Held
    assert type(new["x"]) is list and new["x"][1][1] == 5
    assert [t.tolist() for t in tensors(value)] == [
        [1.0],
        [1.0] * 2,
        [1.0] * 3,
    ]


def test_a_copy_keeps_its_gaps_its_gradient_and_its_twin():
    base = torch.arange(12.0).reshape(3, 4)
    view = base[:, ::2]
    a, b = clone((view, view))
    assert a is b and a.stride() == view.stride() and torch.equal(a, view)
    assert a.untyped_storage().nbytes() == 4 * (1 + 2 * 4 + 1 * 2)  # gaps and all
    leaf = torch.ones(2, requires_grad=True)
    copied = clone(leaf)
    assert copied.requires_grad and copied.is_leaf and copied is not leaf
    assert not clone(torch.ones(2)).requires_grad
    sparse = torch.eye(2).to_sparse()
    assert torch.equal(clone(sparse).to_dense(), torch.eye(2))


def on(*devices):
    return iter([types.SimpleNamespace(device=torch.device(d)) for d in devices])


def test_the_device_is_that_of_inputs_and_parameters(monkeypatch):
    assert (
        correctness.device_of(()) == correctness.device_of((torch.ones(1), 3)) == "cpu"
    )
    there = torch.nn.Linear(1, 1, device="meta")
    with pytest.raises(InputError, match=r"on 2 devices \(cpu, meta\)"):
        correctness.device_of((torch.ones(1),), print, there)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(correctness, "tensors", lambda _: on("cuda:1"))
    assert correctness.device_of(()) == "cuda"
    monkeypatch.setattr(correctness, "tensors", lambda _: on("cuda:0"))
    with pytest.raises(InputError, match=r"set_device\(0\)"):
        correctness.device_of(())


def test_a_result_that_a_later_call_could_overwrite_is_copied():
    x = torch.ones(4)
    (shared,) = correctness._safe(x[1:], (x,))
    own = torch.zeros(4, requires_grad=True)
    (kept,) = correctness._safe([own], (x,))
    x += 1
    assert shared.tolist() == [1.0, 1.0, 1.0]
    assert kept.data_ptr() == own.data_ptr() and not kept.requires_grad
    (meta,) = correctness._safe(torch.ones(1, device="meta"), ())
    assert meta.device.type == "meta"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("  first\nsecond"), "raised RuntimeError: first\nCall it"),
        (KeyError(), "raised KeyError: KeyError\nCall it"),
    ],
)
def test_an_error_is_told_by_its_first_line(error, said):
    def fails():
        raise error

    with pytest.raises(InputError) as told:
        correctness.run("eager", fails, (), 0)
    assert said in str(told.value) and told.value.__cause__ is error
    with pytest.raises(InputError, match="helpers doctor"):
        correctness.run("compiled", fails, (), 0)
