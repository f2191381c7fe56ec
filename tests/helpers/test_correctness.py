"""Do two functions give the same answer?  Asked through compare(), on a fake clock."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from helpers import compare, judge
from helpers.correctness import weighted_sum
from helpers.errors import InputError
from tests.helpers.test_timing import FakeClock

pytestmark = pytest.mark.usefixtures("one_thread")


def asked(eager, compiled, *inputs, **options):
    """Return what compare() says; a call takes a second of a clock that is not real."""
    clock = FakeClock(per_call=1.0)
    return compare(eager, compiled, *inputs, clock=clock, budget=1, **options)


def notes(found):
    return [note for note in found.notes if "captured" not in note]


DIFFER = ["results differ: the speed-up is that of another computation"]


# --------------------------------------------------------------------- what is returned


def test_the_same_function_agrees_in_every_bit():
    found = asked(torch.sin, torch.sin, torch.ones(8), rtol=0.0)
    error = abs(math.sin(1) - float(torch.sin(torch.ones(1))))
    assert found.matches is True and found.max_error == 0 and notes(found) == []
    assert found.error64 == pytest.approx((error, error))


class Dictionary(dict):
    pass


FORMS = {
    "nested": lambda x: {"a": [x], "b": (x + 1, None)},
    "dictionary": lambda x: Dictionary(x=x),
    "distribution": lambda x: torch.distributions.Normal(x, 1.0),
    "number": lambda x: x.sum().item(),
    "truth": lambda x: bool(x.sum() > 150),
    "complex": lambda x: torch.complex(x, x),
    "sparse": lambda x: x.to_sparse(),
    "jagged": lambda x: torch.nested.nested_tensor([x, x[2:]], layout=torch.jagged),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_result_is_compared(form):
    x, make = torch.arange(1.0, 17.0), FORMS[form]
    assert asked(make, make, x).matches is True
    found = asked(make, lambda x: make(x + 3), x)
    assert found.matches is False and notes(found) == DIFFER
    assert found.max_error > 0


def test_not_a_number_agrees_with_itself_only():
    x = torch.tensor([math.nan, math.inf, 1.0])
    assert asked(torch.clone, torch.clone, x).matches is True
    assert asked(torch.clone, torch.clone, x, atol=0.1).matches is True
    for other in (0.0, math.inf, math.nan):
        found = asked(torch.clone, lambda x, to=other: torch.full_like(x, to), x)
        assert found.matches is False and found.max_error == math.inf


def test_tolerances_are_taken_and_one_alone_leaves_the_other_at_zero():
    x = torch.tensor([100.0, 0.0])

    def off(by):
        return lambda x: x + torch.tensor(by)

    for by, options, matches in (
        ([0.5, 0.0], {"rtol": 0.01}, True),
        ([0.0, 0.5], {"rtol": 0.01}, False),
        ([0.0, 0.5], {"atol": 0.5}, True),
        ([0.0, 0.5], {"atol": 0.4}, False),
    ):
        assert asked(torch.clone, off(by), x, **options).matches is matches


# ------------------------------------------------------------------- the judge: float64


def drift(amount):
    return lambda x: x + amount


def rounded(x):
    """The identity, off by 1e-3 unless in float64."""
    return x if x.dtype == torch.float64 else x + 1e-3


def test_as_far_from_float64_as_twice_eager_is_a_match():
    x = torch.zeros(8)
    for amount, matches in ((1.9e-3, True), (-1.9e-3, True), (2.1e-3, False)):
        found = asked(rounded, drift(amount), x)
        assert found.matches is matches
        assert found.error64 == pytest.approx((1e-3, abs(amount)))
    assert asked(rounded, drift(1.9e-3), x, atol=1e-4).matches is False
    assert asked(rounded, lambda x: x.double(), x).matches is False


def test_where_eager_overflows_only_the_truth_will_do():
    def eager(x):
        return (x * 50_000) * 50 / 1e5 * (x / x)

    x = torch.full((4,), 2.0).half()
    for right in (lambda x: eager(x.float()).half(), eager):
        assert asked(eager, right, x).matches is True
    for wrong in (0.0, 51.0, -math.inf, math.nan):
        found = asked(eager, lambda x, wrong=wrong: torch.full_like(x, wrong), x)
        assert found.matches is False and found.error64[0] == math.inf


def layers(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).to(dtype)


def in_pieces(model):
    """Return the same as *model*, summed in another order, which rounds otherwise."""

    def f(x):
        hidden = model[1](model[0](x))
        parts = zip(hidden.split(32, -1), model[2].weight.split(32, 1), strict=True)
        return sum(h @ w.t() for h, w in parts) + model[2].bias

    return f


def test_short_dtypes_round_and_bugs_are_larger():
    model, x = layers(torch.float16), torch.randn(128, 64).half()
    right = in_pieces(model)
    found = asked(model, right, x)
    assert not torch.allclose(model(x), right(x), rtol=1e-3, atol=1e-5)
    assert found.matches is True and notes(found) == []
    for bug in (lambda y: y * 1.05, lambda y: y.index_fill(0, torch.tensor(7), 0)):
        assert asked(model, lambda x, bug=bug: bug(right(x)), x).matches is False


def test_autocast_is_held_against_float64_too():
    model, x = layers(), torch.randn(128, 64)

    def cast(model):
        def f(x):
            with torch.autocast("cpu", torch.bfloat16):
                return model(x).float()

        return f

    assert asked(cast(model), cast(in_pieces(model)), x).matches is True
    wrong = asked(cast(model), cast(lambda x: model(x) * 1.05), x)
    assert wrong.matches is False and wrong.error64 is not None


def test_where_float64_cannot_run_the_notes_say_so():
    def only_float32(x):
        return x @ torch.from_numpy(np.ones((64, 8), np.float32))

    def short(x):
        return torch.from_numpy(np.sin(x.numpy()).astype(np.float32))

    def other(x):
        return sum(part.sum(-1, True) for part in x.split(8, 1)).expand(-1, 8)

    x = torch.rand(8, 64)
    found = asked(only_float32, other, x)
    assert found.matches is True and found.error64 is None
    narrow = asked(short, torch.sin, x)
    assert narrow.matches is True and narrow.error64 is None  # float64 to its end
    said = "float64 could not run: the tolerance of the dtype decided"
    assert notes(found) == [said]
    assert said not in notes(asked(only_float32, other, x, rtol=0.1))
    assert asked(only_float32, lambda x: other(x) + 1, x).matches is False


def test_float64_leaves_no_trace():
    model, x = layers(), torch.randn(2, 64)
    model(x).sum().backward()
    before = [(p, p.data_ptr(), p.grad) for p in model.parameters()]
    asked(model, in_pieces(model), x)
    for p, address, gradient in before:
        assert p.dtype == torch.float32 and p.data_ptr() == address
        assert p.grad is gradient
    assert torch.get_default_dtype() == torch.float32


def detector(nudge):
    """Boxes by falling score, as torchvision returns them; two scores nearly tie."""

    def f(boxes, scores):
        scores = scores + nudge
        order = scores.argsort(descending=True)
        return {"boxes": boxes[order], "scores": scores[order], "labels": order}

    return f


def test_only_rows_whose_scores_tie_may_come_in_another_order():
    boxes, scores = torch.rand(5, 4), torch.tensor([0.9, 0.5, 0.5 + 1e-7, 0.2, 0.1])
    ties = torch.tensor([0, 2e-7, 0, 0, 0])
    assert asked(detector(0.0), detector(ties), boxes, scores).matches is True
    wrong = detector(torch.tensor([0, 0, 0, 0, 0.3]))
    assert asked(detector(0.0), wrong, boxes, scores).matches is False
    assert asked(detector(0.0), lambda b, s: detector(0.0)(b.flip(0), s), boxes,
                 scores).matches is False  # fmt: skip


class Rows(nn.Module):
    """A cache, and the part of it that is read."""

    def __init__(self):
        super().__init__()
        self.rows = torch.zeros(8)
        self.head = self.rows[:3]

    def forward(self, x):
        self.rows += x.sin()
        return self.head * 3


def test_what_shares_memory_shares_it_in_float64():
    model = Rows()
    found = asked(model, lambda x: model(x) * 1.001, torch.ones(8))
    assert found.matches is False and found.error64[0] < 1e-6


def test_what_has_gaps_has_them_in_float64():
    def read(x):
        return torch.as_strided(x, (3,), (2,)) + 1

    def wrong(x):
        return x[:6:2] + 1

    assert asked(read, wrong, torch.arange(10.0)[::2]).matches is False


def test_what_is_made_half_inside_is_not_in_float64():
    """Kernels do not round between operations: they are nearer, and not wrong."""

    def chain(x, dtype):
        y = x.to(dtype)
        for _ in range(4):
            y = (y * 1.01 + 0.1).sin()
        return torch.softmax(y.float(), 0, dtype=torch.float32)

    def half(x):
        return chain(x, torch.bfloat16)

    x = torch.linspace(0, 1, 99)
    found = asked(half, lambda x: chain(x, torch.float32), x)
    assert found.matches is True and found.error64[1] < 1e-6 < found.error64[0]
    assert asked(half, lambda x: half(x) * 1.01, x).matches is False


# ------------------------------------------------------------ what a call leaves behind


def training(model, lr=1e-2, skip=None, kind=torch.optim.AdamW):
    """Return a training step that returns nothing; *skip* is a gradient it loses."""
    optimizer = kind(model.parameters(), lr)

    def step(x):
        model(x).square().mean().backward()
        if skip is not None:
            model[skip].weight.grad = None
        optimizer.step()
        optimizer.zero_grad()

    return step


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)
    )


def test_a_training_step_is_compared_by_what_it_changes():
    x, model = torch.randn(32, 8), net()
    before = copy.deepcopy(model.state_dict())
    eager = training(model)
    for right in (eager, training(net())):  # the same model, or one of its own
        found = asked(eager, right, x)
        assert found.matches is True and notes(found) == []
    wrong = {
        "lr": training(model, lr=1.1e-2),
        "a lost gradient": training(model, skip=3),
        "no step": lambda x: model(x).square().mean().backward(),
    }
    for name, step in wrong.items():
        found = asked(eager, step, x)
        assert found.matches is False and notes(found) == DIFFER, name
        assert found.max_error > 0, name  # of what changes, where nothing is returned
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    ("turned", "lost", "matches"),
    [(4, 0, True), (5, 0, False), (0, 1, False), (1, 1, False)],
)
def test_a_few_steps_of_adam_may_go_the_other_way(turned, lost, matches):
    """Where a gradient is rounding, its sign is anything; but a step is made."""
    weight = torch.zeros(1024)

    def step(turned=0, lost=0):
        update = torch.full((1024,), 0.001)
        update[:turned] *= -1
        update[1024 - lost :] = 0
        weight.sub_(update)

    found = asked(step, lambda: step(turned, lost))
    assert found.matches is matches, found.notes


def test_the_loss_weighs_every_number_from_minus_six_to_six():
    one, other = torch.ones(2, 7, requires_grad=True), torch.ones(1, requires_grad=True)
    weighted_sum({"a": one * 1, "b": [other * 1, torch.ones(3)]}).backward()
    assert one.grad.flatten().tolist() == [*range(-6, 7), -6]
    assert other.grad.tolist() == [-6]
    with pytest.raises(InputError, match=r"^to train, a result .* return a loss too$"):
        weighted_sum(torch.ones(2))


def test_what_is_left_of_a_gradient_that_cancels_is_noise():
    weight, bias = (torch.ones(2, requires_grad=True) for _ in range(2))

    def leaving(noise):
        def f(x):
            left = noise if x.dtype == torch.float32 else 0.0
            (weight * x + bias * left).sum().backward()

        return f

    for noise, matches in ((1e-5, True), (4e-4, True), (6e-4, False), (1e-2, False)):
        for options in ({}, {"rtol": 0.5}):
            found = asked(leaving(1e-9), leaving(noise), torch.ones(2), **options)
            assert found.matches is matches

    steps = torch.zeros(2)  # has no gradient, so that its last digit counts

    def counting(by):
        def f(x):
            (weight * x).sum().backward()
            steps.add_(by)

        return f

    for by, matches in ((1e-5, True), (1e-4, False)):
        other = counting(by)
        assert asked(counting(1e-5), other, torch.ones(2)).matches is matches


@pytest.mark.parametrize(("off", "matches"), [(1e-4, True), (4e-3, False)])
def test_a_gradient_is_no_step_and_has_more_digits(off, matches):
    weight = torch.linspace(1, 2, 8).requires_grad_()

    def leaving(off):
        return lambda x: (weight * x * (1 + off)).sum().backward()

    found = asked(leaving(0), leaving(off), torch.linspace(0.1, 1, 8))
    assert found.matches is matches


def test_a_changed_input_is_said_compared_and_the_reader_s_left_alone():
    def grow(x):
        x += 1
        return x.sum()

    def other(x):
        total = (x + 1).sum()
        x += 2
        return total

    x = torch.ones(4)
    found = asked(grow, grow, x)
    assert found.matches is True and torch.equal(x, torch.ones(4))
    assert notes(found) == ["changes its inputs: each timed call sees other numbers"]
    found = asked(grow, other, x)
    assert found.matches is False and found.max_error == 0  # of what is returned
    assert notes(found)[1:] == [
        "what is returned agrees; a gradient, or what else changes, differs"
    ]
    found = asked(lambda x: (x + 1).sum(), grow, x)  # eager leaves it as it is
    assert found.matches is False
    # What is given by name is put back, too.
    assert asked(grow, grow, kwargs={"x": x}).matches is True
    truths = torch.tensor([True, False])
    assert asked(torch.Tensor.logical_not_, lambda t: ~t, truths).matches is False


# ----------------------------------------------------------------------- random numbers


def test_random_numbers_are_compared_in_a_fresh_compile_that_draws_eager_s():
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 8))
    x = torch.randn(32, 8)
    found = asked(model, torch.compile(model, backend="eager"), x)
    assert found.matches is True and found.max_error == 0
    said = "a fresh compile that draws those of eager (fallback_random) was compared"
    assert notes(found) == [f"draws random numbers: {said}"]
    scales = [n * torch.eye(8) for n in (1.5, 1.01)]  # a product takes no new kernel
    wrong, near = (
        torch.compile(lambda x, scale=scale: model(x) @ scale, backend="eager")
        for scale in scales
    )
    found = asked(model, wrong, x)
    assert found.matches is False and notes(found)[1:] == DIFFER
    assert [asked(model, near, x, rtol=r).matches for r in (0.001, 0.02)] == [0, 1]


def test_a_wrong_step_is_not_excused_by_float64_drawing_other_numbers(monkeypatch):
    monkeypatch.setattr(judge, "compile_apart", lambda fn: fn)
    model, x = nn.Linear(8, 8), torch.randn(32, 8)

    def training_at(lr):
        optimizer = torch.optim.SGD(model.parameters(), lr)

        def step(x):
            loss = (model(x) * torch.rand_like(x)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    for lr, wrong, matches in ((0.1, 0.1, True), (0.1, 0.2, False), (0.0, 0.1, False)):
        other = torch.compile(training_at(wrong), backend="eager")
        assert asked(training_at(lr), other, x).matches is matches


def test_what_differs_from_call_to_call_is_not_decided():
    numbers = iter(range(10**9))
    found = asked(lambda x: x + next(numbers), lambda x: x, torch.ones(2))
    assert found.matches is None
    assert notes(found) == ["each call gives another result, seed or not"]
    # On a GPU, atomic additions come in another order in every call.
    wavers = asked(lambda x: x + next(numbers) % 2 * 1e-7, lambda x: x, torch.ones(64))
    assert wavers.matches is True


# ---------------------------------------------------------------------------- bad input


def failing(x):
    raise RuntimeError("  no such thing\nsecond line")


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            failing,
            torch.sin,
            "^the eager function raised RuntimeError: no such thing\nCall .* yet\\.$",
        ),
        (torch.sin, failing, "^the compiled function .*\nEager ran, so .* came\\.$"),
        (failing, failing, "eager function raised"),
        (lambda x: None, lambda x: None, "eager function returned no tensor or number"),
        (torch.sin, lambda x: None, "^the compiled function .*: return a result$"),
        (lambda x: torch.ones(2, device="meta"),) * 2 + ("^a tensor on meta has no",),
    ],
)
def test_functions_that_cannot_be_compared(a, b, said):
    with pytest.raises(InputError, match=said):
        asked(a, b, torch.randn(8))


def test_devices_that_cannot_be_timed():
    there = nn.Linear(2, 2, device="meta")
    with pytest.raises(InputError, match="on cpu and meta"):
        asked(there, there, torch.ones(2))
    with pytest.raises(InputError, match=r"^meta cannot .* 'cpu' or 'cuda'$"):
        asked(there, there, torch.ones(2, device="meta"))
    with pytest.raises(InputError, match="meta"):
        asked(lambda: there(torch.ones(2)), lambda: there(torch.ones(2)))
    shape = torch.ones(3, 2, device="meta")  # and nothing is computed from it
    assert asked(shape.shape.numel, shape.numel).matches is True


def test_float8_is_compared():
    def narrow(x):
        return x.to(torch.float8_e4m3fn)

    x = torch.arange(1.0, 17.0)
    assert asked(narrow, narrow, x).matches is True
    assert asked(narrow, lambda x: narrow(x + 3), x).matches is False
