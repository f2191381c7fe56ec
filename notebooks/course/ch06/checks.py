"""Checks and hints of lesson 06."""

import random

import torch

from course.aot import aten_graph
from course.exercises import exercise, fresh

# --- 06.1 ----------------------------------------------------------------------


def _nothing(x, y):
    z = x.clone()
    z.mul_(2)
    return z + (y.int() << 1)  # aten calls it __lshift__


def _through_a_view(x, y):
    z = x * 2
    y.t()[0].add_(1)
    return z


def _read_first(x, y):
    before = x + y
    y.copy_(x)
    x.zero_()
    return before


def _copied(x, y):
    z = x + 1  # or y would come first in the graph
    y.copy_(x)
    y[0].copy_(x[1])
    return z


def _same_values(x, y):
    z = x.copysign(y)
    return z, y.mul_(1)


def _some_of_twelve(places):
    def writes(*inputs):
        total = sum(inputs)
        for place in places:
            inputs[place].add_(1)
        return total

    return writes


def _graph(function, many=2):
    inputs = [torch.ones(3, 3) * n for n in range(many)]
    return aten_graph(fresh(function), *inputs).graph


@exercise(
    "06.1",
    hints=(
        "After functionalization, one operation is left that writes. Which one, and "
        "where does it say into what?",
        'graph.find_nodes(op="placeholder") gives the inputs in order, and '
        'find_nodes(op="call_function", target=torch.ops.aten.copy_.default) the '
        "writes. The first of a write's args is the tensor that it writes into.",
        'inputs = graph.find_nodes(op="placeholder"); for each copy_ node, '
        "inputs.index(node.args[0]). Return them sorted, each once.",
    ),
    passed="You read it off the graph: clones, views and the order don't deceive you.",
)
def overwritten(answer):
    drawn = [*sorted(random.sample(range(2, 10), 2)), 10]  # as text, 10 is before 2
    for what, graph, wanted in (
        ("a write into a clone", _graph(_nothing), []),
        ("a write through a view", _graph(_through_a_view), [1]),
        ("two inputs are written", _graph(_read_first), [0, 1]),
        ("an input is copied into another", _graph(_copied), [1]),
        ("a write that leaves the values as they are", _graph(_same_values), [1]),
        ("the last of twelve is written", _graph(_some_of_twelve([11]), 12), [11]),
        ("three of twelve are written", _graph(_some_of_twelve(drawn), 12), drawn),
    ):
        given = answer(graph)
        if [*given] != wanted:
            return f"{what}: you return {given}, and the graph writes {wanted}"
    return None


# --- 06.2 ----------------------------------------------------------------------

X = 1 + torch.arange(400) / 512  # sums of these are exact
LAST = torch.arange(400) == 399


def _step(draw):
    """Return a step with the two masks that draw() returns, and no even slope.

    Or draw() says whose mask the backward has, in the first call and in others.
    """
    kept = []

    def step(x):
        forward, backward = draw()
        kept.append(forward)
        if isinstance(backward, str):
            whose = {"own": forward, "first": kept[0], "new": _mask()}
            backward = whose[backward.split()[len(kept) > 1]]
        return 2 * (x + 1) * forward, -3 * x * backward

    return step


def _mask(share=0.5):
    return torch.rand(X.shape) < share


def _in_turn():
    return torch.arange(400) % 2 == 0


def _half():
    """Return a mask that is as large as the others, with the same sum of X."""
    half = torch.randperm(X.numel() // 2) % 2 == 0
    return torch.cat([half, half.flip(0)])


def _half_drawn():
    return torch.where(torch.arange(400) < 200, _in_turn(), _mask())


STEPS = (  # what it is, its two masks, and whether it can be trusted
    ("one mask, and another in the next call", lambda: [_mask()] * 2, True),
    ("one mask, and in the next call one as large", lambda: [_half()] * 2, True),
    ("two masks that drop as many elements", lambda: (_half(), _half()), False),
    ("the same mask in each call", lambda: [_in_turn()] * 2, False),
    ("one mask, other values", lambda: [_in_turn() * (1 + torch.rand(1))] * 2, False),
    ("a backward that drops more", lambda: ((m := _mask()), m & _mask(0.8)), False),
    ("one other element, the last", lambda: ((m := _mask()), m ^ LAST), False),
    ("one mask, of which each call draws half", lambda: [_half_drawn()] * 2, True),
    ("the first call's mask in each backward", lambda: (_mask(), "own first"), False),
    ("one mask in the first call only", lambda: (_mask(), "own new"), False),
    ("two masks in the first call only", lambda: (_mask(), "new own"), False),
    ("a forward that drops more", lambda: ((m := _mask()) & _mask(0.8), m), False),
)


@exercise(
    "06.2",
    hints=(
        "An element that was dropped is zero in the result. What must its gradient be, "
        "and what must the gradient of the others be?",
        "result == 0 is the mask of the forward, gradient == 0 that of the backward: "
        "torch.equal compares them. Then call step a second time, and compare again.",
        "first, gradient = step(x); second, slope = step(x). Return torch.equal(first "
        "== 0, gradient == 0) and torch.equal(second == 0, slope == 0) and not "
        "torch.equal(first == 0, second == 0).",
    ),
    passed="It accepts dropout that works, and refuses dropout that doesn't.",
)
def sound(answer):
    torch.manual_seed(3)
    for what, draw, wanted in (*STEPS, *random.sample(STEPS, len(STEPS))):
        if bool(answer(_step(draw), X)) != wanted:
            can = "can" if wanted else "can't"
            return f"{what}: such a step {can} be trusted, and you say the opposite"
    return None
