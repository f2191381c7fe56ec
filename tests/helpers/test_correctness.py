"""Do two functions give the same answer?  Asked through compare(), on a fake clock."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch._inductor import config

from helpers import compare, judge
from helpers.correctness import weighted_sum
from helpers.errors import InputError
from tests.helpers.test_timing import FakeClock

pytestmark = pytest.mark.usefixtures("one_thread")
DIFFER = ["results differ: the speed-up is that of another computation"]
LEFT_DIFFERS = "what is returned agrees; a gradient, or what else changes, differs"
NO_FLOAT64 = "float64 could not run: the tolerance of the dtype decided"


def asked(eager, compiled, *inputs, **options):
    """Return what compare() says; a call takes a second of a clock that is not real."""
    clock = FakeClock(per_call=1.0)
    return compare(eager, compiled, *inputs, clock=clock, budget=1, **options)


def notes(found):
    return [n for n in found.notes if not n.startswith(("nothing was", "input "))]


# --------------------------------------------------------------------- what is returned


def test_the_same_function_agrees_in_every_bit():
    found = asked(torch.sin, torch.sin, torch.ones(8))
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
    "float8": lambda x: x.to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_result_is_compared(form):
    x, make = torch.arange(1.0, 17.0), FORMS[form]
    assert asked(make, make, x).matches is True
    found = asked(make, lambda x: make(x + 3), x)
    assert found.matches is False and found.max_error > 0
    assert notes(found) == [NO_FLOAT64] * (form == "float8") + DIFFER


# ------------------------------------------------------ rounding, or another answer?


def drift(*amount):
    return lambda x: x + torch.tensor(amount)


def filled(value):
    return lambda x: torch.full_like(x, value)


def rounded(x):
    """The identity, off by 1e-3 unless in float64."""
    return x if x.dtype == torch.float64 else x + 1e-3


def overflows(x):
    return (x * 50_000) * 50 / 1e5 * (x / x)


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


def wrong_of(f, change=lambda y: y * 1.05):
    return lambda *inputs: change(f(*inputs))


def cast(model):
    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return model(x).float()

    return f


def detector(nudge=0.0):
    """Boxes by falling score, as torchvision returns them; two scores nearly tie."""

    def f(boxes, scores):
        scores = scores + nudge
        order = scores.argsort(descending=True)
        return {"boxes": boxes[order], "scores": scores[order], "labels": order}

    return f


def cached(x):
    """Write to a cache, and read a part of it."""
    CACHE.add_(x.sin())
    return HEAD * 3


def chain(dtype):
    """What is made half inside is not in float64: a kernel that rounds less is near."""

    def f(x):
        y = x.to(dtype)
        for _ in range(4):
            y = (y * 1.01 + 0.1).sin()
        return torch.softmax(y.float(), 0, dtype=torch.float32)

    return f


def only_float32(x):
    return x @ torch.from_numpy(np.ones((64, 8), np.float32))


def in_another_order(x):
    return sum(part.sum(-1, True) for part in x.split(8, 1)).expand(-1, 8)


def sine_of_numpy(x):
    return torch.from_numpy(np.sin(x.numpy()).astype(np.float32))


X, NANS = torch.tensor([100.0, 0.0]), torch.tensor([math.nan, math.inf, 1.0])
ZEROS, TWOS = torch.zeros(8), torch.full((4,), 2.0).half()
BATCH, HALF = torch.randn(128, 64), layers(torch.float16)
MODEL, CACHE = layers(), torch.zeros(8)
HEAD = CACHE[:3]
ONES = torch.ones(4)
BOXES = torch.rand(5, 4), torch.tensor([0.9, 0.5, 0.5 + 1e-7, 0.2, 0.1])
TIED, SWAPPED = torch.tensor([0, 2e-7, 0, 0, 0]), torch.tensor([0, 0, 0, 0, 0.3])
ROWS, LINE = torch.rand(8, 64), torch.linspace(0, 1, 99)
JUDGED = [  # eager, compiled, inputs, whether they match, notes
    (torch.clone, torch.clone, [NANS], True, []),
    *((torch.clone, filled(value), [NANS], False, DIFFER)
      for value in (0.0, math.inf, math.nan)),
    # As far from float64 as twice eager is a match.
    (rounded, drift(1.9e-3), [ZEROS], True, []),
    (rounded, drift(-1.9e-3), [ZEROS], True, []),
    (rounded, drift(2.1e-3), [ZEROS], False, DIFFER),
    (rounded, lambda x: x.double(), [ZEROS], False, DIFFER),
    # Where eager overflows, only the truth will do.
    (overflows, lambda x: overflows(x.float()).half(), [TWOS], True, []),
    (overflows, overflows, [TWOS], True, []),
    *((overflows, filled(value), [TWOS], False, DIFFER)
      for value in (0.0, 51.0, -math.inf, math.nan)),
    (HALF, in_pieces(HALF), [BATCH.half()], True, []),
    (HALF, wrong_of(in_pieces(HALF)), [BATCH.half()], False, DIFFER),
    (HALF, wrong_of(in_pieces(HALF), lambda y: y.index_fill(0, torch.tensor(7), 0)),
     [BATCH.half()], False, DIFFER),
    (cast(MODEL), cast(in_pieces(MODEL)), [BATCH], True, []),
    (cast(MODEL), cast(wrong_of(MODEL)), [BATCH], False, DIFFER),
    (only_float32, in_another_order, [ROWS], True, [NO_FLOAT64]),
    (only_float32, wrong_of(in_another_order, lambda y: y + 1), [ROWS], False,
     [NO_FLOAT64, *DIFFER]),
    (sine_of_numpy, torch.sin, [ROWS], True, [NO_FLOAT64]),  # float64 to its end
    # Only rows whose scores tie may come in another order.
    (detector(), detector(TIED), BOXES, True, []),
    (detector(), detector(SWAPPED), BOXES, False, DIFFER),
    (detector(), lambda b, s: detector()(b.flip(0), s), BOXES, False, DIFFER),
    # What shares memory, or has gaps, does so in float64.
    (cached, wrong_of(cached, lambda y: y * 1.001), [torch.ones(8)], False, DIFFER),
    (lambda x: torch.as_strided(x, (3,), (2,)) + 1, lambda x: x[:6:2] + 1,
     [torch.arange(10.0)[::2]], False, DIFFER),
    (chain(torch.bfloat16), chain(torch.float32), [LINE], True, []),
    (chain(torch.bfloat16), wrong_of(chain(torch.bfloat16), lambda y: y * 1.01),
     [LINE], False, DIFFER),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(JUDGED)))
def test_what_is_returned_is_right_up_to_rounding(case):
    eager, compiled, inputs, matches, said = JUDGED[case]
    found = asked(eager, compiled, *inputs)
    assert found.matches is matches and notes(found) == said
    assert (found.error64 is None) == (eager in (only_float32, sine_of_numpy))


def test_float64_leaves_no_trace():
    model = layers()
    model(BATCH).sum().backward()
    before = [(p, p.data_ptr(), p.grad) for p in model.parameters()]
    asked(model, in_pieces(model), BATCH)
    for p, address, gradient in before:
        assert p.dtype == torch.float32 and p.data_ptr() == address
        assert p.grad is gradient
    assert torch.get_default_dtype() == torch.float32


# ------------------------------------------------------------ what a call leaves behind


def training(model, lr=1e-2, skip=None):
    """Return a training step that returns nothing; *skip* is a gradient it loses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr)

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


WEIGHT, BIAS = (torch.ones(2, requires_grad=True) for _ in range(2))
STEPS = torch.zeros(2)  # has no gradient, so that its last digit counts
SCALAR = torch.tensor(2.0, requires_grad=True)
SLOPE = torch.linspace(1, 2, 8).requires_grad_()


def cancels(noise):
    """A gradient of BIAS of which nothing but *noise* is left."""

    def f(x):
        left = noise if x.dtype == torch.float32 else 0.0
        (WEIGHT * x + BIAS * left).sum().backward()

    return f


def counts(by):
    def f(x):
        (WEIGHT * x).sum().backward()
        STEPS.add_(by)

    return f


def slopes(by):
    return lambda x: (SLOPE[: len(x)] * x * (1 + by)).sum().backward()


def scales(by):
    return lambda x: (SCALAR * x * (1 + by)).sum().backward()


@pytest.mark.parametrize(
    ("left", "usual", "off", "matches"),
    [
        *((cancels, 1e-9, noise, True) for noise in (1e-5, 4e-4)),
        *((cancels, 1e-9, noise, False) for noise in (6e-4, 1e-2)),
        *((counts, 1e-5, by, by == 1e-5) for by in (1e-5, 1e-4)),
        *((scales, 0, by, by < 1e-3) for by in (1e-6, 4e-3)),
        *((slopes, 0, by, by < 1e-3) for by in (1e-4, 4e-3)),  # it has more digits
    ],
)
def test_what_is_left_of_a_gradient_that_cancels_is_noise(left, usual, off, matches):
    x = torch.ones(2)
    assert asked(left(usual), left(off), x).matches is matches


def test_a_changed_input_is_compared_and_the_reader_s_left_alone():
    found = asked(lambda x: (x + 1).sum(), lambda x: x.add_(1).sum(), ONES)
    assert found.matches is False and notes(found) == [LEFT_DIFFERS]
    assert found.max_error == 0  # of what is returned
    assert torch.equal(ONES, torch.ones(4))


# ----------------------------------------------------------------------- random numbers


def draws_its_own(graph, _):
    """A back end that draws other numbers than eager, unless it is told to."""

    def run(*inputs):
        if not config.fallback_random:
            torch.rand(1)
        return graph(*inputs)

    return run


def test_random_numbers_are_compared_in_a_fresh_compile_that_draws_eager_s():
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 8))
    x = torch.randn(32, 8)
    found = asked(model, torch.compile(model, backend=draws_its_own), x)
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
    assert asked(model, near, x).matches is None
    found = asked(model, lambda x: model(x) * 1.5, x)
    said = "draws random numbers: results were not held against each other"
    assert found.matches is None and notes(found) == [said]


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
    numbers = iter(range(1, 10**9))
    found = asked(lambda x: x + next(numbers), lambda x: x, torch.ones(2))
    assert found.matches is None
    assert notes(found) == ["each call gives another result, seed or not"]
    # On a GPU, atomic additions come in another order in every call.
    wavers = asked(lambda x: x + next(numbers) % 2 * 1e-7, lambda x: x, torch.ones(64))
    assert wavers.matches is True


# ---------------------------------------------------------------------------- bad input


def failing(x):
    raise RuntimeError("  no such thing\nsecond line")


META = torch.ones(2, device="meta")
THERE = nn.Linear(2, 2, device="meta")


@pytest.mark.parametrize(
    ("a", "b", "inputs", "said"),
    [
        (failing, torch.sin, [X], "^the eager .*: no such thing\nCall .* yet\\.$"),
        (torch.sin, failing, [X], "^the compiled .*\nEager ran, so .* came\\.$"),
        (failing, failing, [X], "eager function raised"),
        (lambda x: None, lambda x: None, [X],
         "eager function returned no tensor or number"),
        (torch.sin, lambda x: None, [X], "^the compiled function .*: return a result$"),
        (lambda: META, lambda: META, [], "^a tensor on meta has no"),
        (THERE, THERE, [META], "^meta cannot .* 'cpu' or 'cuda'$"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_compared(a, b, inputs, said):
    with pytest.raises(InputError, match=said):
        asked(a, b, *inputs)
