"""Checks and hints of notebook 06."""

import functools

import torch
from torch._functorch import config

from course.ch06.saved import saved_bytes
from course.exercises import exercise, fresh, number
from helpers.text import count

# --- 06.1 ----------------------------------------------------------------------

X = torch.linspace(1, 2, 400)


def _dropped(forward, backward):
    return torch.where(forward, 2 * X, 0), torch.where(backward, 2.0, 0)


def _right(x):
    mask = torch.rand(x.shape) < 0.5
    return _dropped(mask, mask)


def _two_masks_as_large(x):
    mask = torch.randperm(x.numel()) % 2 == 0
    return _dropped(mask, mask.roll(1))


def _backward_drops_more(x):
    mask = torch.rand(x.shape) < 0.5
    return _dropped(mask, mask & (torch.rand(x.shape) < 0.8))


def _forward_drops_more(x):
    mask = torch.rand(x.shape) < 0.5
    return _dropped(mask & (torch.rand(x.shape) < 0.8), mask)


def _frozen(x):
    mask = torch.arange(x.numel()) % 2 == 0
    return _dropped(mask, mask)


STEPS = (  # what it is called, the step, and whether it can be trusted
    ("one mask, and another in the next call", _right, True),
    ("two masks that drop as many elements", _two_masks_as_large, False),
    ("the same mask in each call", _frozen, False),
    ("a backward that drops more", _backward_drops_more, False),
    ("a forward that drops more", _forward_drops_more, False),
)


@exercise(
    "06.1",
    hints=(
        "An element that was dropped is zero in the result. What must its gradient be, "
        "and what must the gradient of the others be?",
        "result == 0 is the mask of the forward, gradient == 0 that of the backward: "
        "torch.equal compares them. Then call step a second time.",
        "first, gradient = step(x); second, _ = step(x). Return torch.equal(first == "
        "0, gradient == 0) and not torch.equal(first == 0, second == 0).",
    ),
    passed="It accepts dropout that works, and none that does not.",
)
def one_mask(sound):
    for name, step, wanted in STEPS:
        torch.manual_seed(3)
        answer = bool(sound(step, X))
        if answer != wanted:
            should = "can be trusted" if wanted else "cannot be trusted"
            return f"{name}: such a step {should}, and the answer was {answer}"
    return None


# --- 06.2 ----------------------------------------------------------------------

SHARES = [n / 10 for n in range(10, -1, -1)]


def _program(x, w):
    y = torch.sigmoid(x) * torch.tanh(x @ w)
    return (y @ w).exp().cos()


@exercise(
    "06.2",
    hints=(
        "Say at which line a compile happens: torch.compile, or the first call?",
        "Both have to be inside config.patch(activation_memory_budget=share). And the "
        "compiled code is kept with the code of fn: the second share would find the "
        "graph of the first.",
        "For each share from 1.0 down: torch.compiler.reset(); inside the budget, "
        'compiled = torch.compile(fn, backend="aot_eager") and saved_bytes(compiled, '
        "*inputs). Return the first share that fits.",
    ),
    passed="It turns the dial no further than the memory asks for.",
)
def fit_into_memory(frugal):
    torch.manual_seed(0)
    inputs = [torch.randn(24, 24).requires_grad_() for _ in range(2)]

    @functools.cache
    def kept(share):
        """Return the bytes that the program keeps for its backward."""
        with config.patch(activation_memory_budget=share):
            compiled = torch.compile(fresh(_program), backend="aot_eager")
            return saved_bytes(compiled, *inputs)

    for limit in (10**6, kept(1.0) // 2):
        wanted = next(share for share in SHARES if kept(share) <= limit)
        share = number(frugal(fresh(_program), inputs, limit))
        if share is None:
            return (
                f"with {count(limit, 'byte')} allowed it found no share, but {wanted} "
                f"keeps {kept(wanted)}: did each share get a graph of its own?"
            )
        if abs(share - wanted) > 1e-6:
            return (
                f"a share of {share}, and {wanted} is the largest that keeps {limit} "
                "bytes or less: was each in force when the compile happened?"
            )
    return None
