"""What differs is named, by place and field; healthy programs that look ill are left.

Each program is wrong by a bug that torch 2.13 has, or by a fault that is planted where
compilers have theirs: in the graph, in what runs it, in a backward.
"""

import collections
import math
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_checkup import differences as told
from torch_checkup.differences import Difference
from torch_checkup.judge import differences, judged
from torch_checkup.patient import Patient

pytestmark = pytest.mark.usefixtures("one_thread")


class Given(Patient):
    """A model and its calls, given as they are."""

    def __init__(self, fn, *calls, train=False, loss=None):
        self.order, self.fn = {"timeout": 100.0, "budget": 0.1}, fn
        self.module = fn if isinstance(fn, nn.Module) else None
        self.train, self.loss = train, loss or (lambda out: out.square().sum())
        self._calls = [(inputs, {}) for inputs in calls]


def compiled_by(p, backend="aot_eager"):
    return partial(p.compiled, backend=backend)


def found(p, backend="aot_eager"):
    """Return the judgement on a model that *backend* compiles."""
    compiling = compiled_by(p, backend)
    p.try_out()
    return judged(p, compiling(), again=compiling)


def faulty(change):
    """Return a back end whose results *change* makes others."""

    def backend(graph, _):
        return lambda *inputs: change(list(graph(*inputs)), inputs)

    return backend


def on_first(change):
    def of_all(results, _):
        return [change(results[0]), *results[1:]]

    return faulty(of_all)


def seed():
    torch.manual_seed(0)


# ------------------------------------------------------------------------------ healthy


class Keeps(nn.Module):
    """Keeps its last two inputs."""

    def __init__(self):
        super().__init__()
        self.kept = collections.deque(maxlen=2)

    def forward(self, x):
        self.kept.append(x)
        return torch.stack(list(self.kept)).sum(0)


class Numbered(nn.Module):
    """Keeps the numbers of its calls for all of its kind."""

    calls: ClassVar = []

    def forward(self, x):
        Numbered.calls.append(len(Numbered.calls))
        return x * len(Numbered.calls)


class Counted(nn.Module):
    """Counts the calls of all of its kind."""

    calls = 0

    def forward(self, x):
        type(self).calls += 1
        return x * self.calls


SCALE = torch.linspace(0.5, 1.5, 3)


class Scaled(nn.Module):
    """Reads a tensor that stands in its file."""

    def forward(self, x):
        return x * SCALE


class Writes(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x):
        self.n += 1
        return x * self.n


class Rows:
    def __init__(self):
        self.rows = []


def appended(x, cache):
    cache.rows.append(x)
    return torch.cat(cache.rows).sum(0)


def shared_cache():
    cache = Rows()
    return [(torch.rand(1, 4), cache) for _ in range(3)]


def detected(x):
    keep = x[:, 0] > 2
    return x[keep], keep.nonzero()


def detector(boxes, scores):
    order = scores.argsort(descending=True)
    return boxes[order], scores[order]


def chaotic(x):
    for _ in range(30):
        x = 3.9 * x * (1 - x)
    return x


def in_place(x):
    y = x.view(-1)
    y[::2].mul_(2)
    return y, x.t()


def norm():
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())


HEALTHY = {
    "dropout": lambda: Given(nn.Dropout(), (torch.rand(64),)),
    "dropout, trained": lambda: Given(
        nn.Sequential(nn.Linear(8, 8), nn.Dropout()), (torch.rand(16, 8),), train=True
    ),
    "numbers of NumPy": lambda: Given(
        lambda x: x * torch.from_numpy(np.random.rand(64)), (torch.rand(64),)
    ),
    "BatchNorm, trained": lambda: Given(norm(), (torch.rand(16, 8),), train=True),
    "views and writes": lambda: Given(in_place, (torch.rand(4, 4),)),
    "bfloat16": lambda: Given(norm().bfloat16(), (torch.rand(16, 8).bfloat16(),)),
    "ties": lambda: Given(
        detector, (torch.rand(5, 4), torch.tensor([0.5, 0.5, 0.9, 0.1, 0.5]))
    ),
    "sparse": lambda: Given(
        lambda x: x.to_sparse() if x.dim() > 9 else (x @ x).sin(), (torch.eye(4),)
    ),
    "ill-conditioned": lambda: Given(chaotic, (torch.rand(64),)),
    "nothing is found": lambda: Given(detected, (torch.rand(5, 3),)),
    "no numbers": lambda: Given(lambda x: x + 1, (torch.zeros(0, 3),)),
    "noise around 0": lambda: Given(
        lambda x: x.softmax(-1).sum(-1) - 1, (torch.rand(16, 7),)
    ),
    "NaN on purpose": lambda: Given(
        lambda x: (x / x * math.inf).softmax(-1), (torch.rand(3, 3),)
    ),
    "a deque that is read": lambda: Given(Keeps(), (torch.ones(3),)),
    "a tensor of the file": lambda: Given(Scaled(), (torch.ones(3),)),
    "a counter": lambda: Given(Writes(), *[(torch.rand(3),)] * 3),
    "a list of the class": lambda: Given(Numbered(), *[(torch.rand(3),)] * 3),
    "one cache for all calls": lambda: Given(appended, *shared_cache()),
    "both raise": lambda: Given(
        lambda x, at: F.embedding(at, x),
        (torch.rand(3, 2), torch.tensor([2])),
        (torch.rand(3, 2), torch.tensor([7])),
    ),
    "the input comes back": lambda: Given(lambda x: (x, x[0], x + 1), (torch.rand(2),)),
    "a text and a number": lambda: Given(
        lambda x: {"name": "a", "n": x.shape[0], "x": x.sin()}, (torch.rand(2),)
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_ill_is_no_difference(name):
    seed()
    judgement = found(HEALTHY[name]())
    assert judgement.differences == () and judgement.matches is True, judgement


def test_rounding_that_turns_a_whole_number_is_no_difference():
    """Eager itself gives others, where the last digit of what it is given moves."""
    seed()
    layer, x = nn.Linear(64, 64), torch.randn(512, 64)

    def rounds(x):
        return (layer(x) * 4000).round().to(torch.int64)

    def otherwise(graph, _):
        def run(weight, bias, x):
            sums = sum(
                a @ b.t()
                for a, b in zip(x.split(16, 1), weight.split(16, 1), strict=True)
            )
            return [((sums + bias) * 4000).round().to(torch.int64)]

        return lambda *inputs: run(*sorted_inputs(inputs))

    def sorted_inputs(inputs):
        bias = next(t for t in inputs if t.dim() == 1)
        weight = next(t for t in inputs if t.shape == (64, 64))
        return weight, bias, next(t for t in inputs if t.shape == (512, 64))

    p = Given(rounds, (x,))
    assert not torch.equal(p.compiled(backend=otherwise)(x), rounds(x))
    assert found(p, otherwise).differences == ()
    wrong = on_first(lambda y: y + (torch.arange(64) == 7))
    assert [d.where for d in found(p, wrong).differences] == [("output", "values")]


# -------------------------------------------------------------------------------- wrong


class Halves(torch.autograd.Function):
    """The identity, whose backward is wrong in what *how* makes of it when compiled."""

    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if not torch.compiler.is_compiling():
            return gradient, None
        if ctx.how == "row":
            return gradient * (torch.arange(len(gradient)) != 7)[:, None], None
        return None, None


class Trained(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.body, self.how = nn.Linear(8, 4000, bias=False), how

    def forward(self, x):
        return x @ Halves.apply(self.body.weight, self.how).t()


class Fresh(nn.Module):
    """Takes another way when it is compiled."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        return self.way(x, torch.compiler.is_compiling())


def either(way, *calls, **how):
    return lambda: Given(Fresh(way), *(calls or [(torch.rand(3, 3),)]), **how)


def copies_back(state):
    new = torch.select_scatter(state, torch.ones(4), 0, 2)
    state.copy_(new)
    return new


def fills(base):
    base.expand(3, -1).fill_(2.0)
    return base * 1


@torch._dynamo.allow_in_graph
def checked(x):
    if type(x) is not torch.Tensor:
        raise TypeError(f"want a Tensor, got {type(x).__name__}")
    return x * 2


def typed(x):
    return checked(x) + 1


def drawn(x, compiled):
    return x * torch.from_numpy(np.random.rand(3)) * (1.5 if compiled else 1)


def dropped(x, compiled):
    y = F.dropout(x)
    return y.double() if compiled else y


class Blocks(nn.Module):
    """Compiles its blocks by itself."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            Fresh(lambda x, c: x * (1.5 if c else 1)) for _ in range(2)
        )
        for block in self.blocks:
            block.compile(backend="eager")

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def own_blocks():
    p = Given(Blocks(), (torch.rand(3),))
    p.whole = False
    p.compiled = lambda **_: p.fn
    return p


def small(x, compiled):
    return x * 1e-6 * (1.01 if compiled else 1)


def one_column(x, compiled):
    scale = torch.tensor([1.0, 1e-7 if compiled else 1e-6, 1.0])
    return x * scale


WRONG = {  # a model, its back end, and where its first difference is
    "bug: a copy back": (
        lambda: Given(copies_back, (torch.rand(4, 4),)),
        "inductor",
        (1, "output", "identity"),
    ),
    "bug: a number of the class": (
        lambda: Given(Counted(), *[(torch.rand(3),)] * 3),
        "inductor",
        (1, "output", "values"),
    ),
    "bug: a write to an expanded view": (
        lambda: Given(fills, (torch.zeros(4),)),
        "aot_eager",
        (1, "output", "values"),
    ),
    "bug: a deque of inputs": (
        lambda: Given(Keeps(), *[(torch.full((3,), float(i)),) for i in range(1, 5)]),
        "eager",
        (3, "output", "values"),
    ),
    "bug: celu of alpha 0": (
        lambda: Given(partial(F.celu, alpha=0.0), (torch.randn(4),)),
        "inductor",
        (1, "the call", "raises"),
    ),
    "a check of types": (
        lambda: Given(typed, (torch.rand(3),)),
        "eager",
        (1, "the call", "raises"),
    ),
    "blocks compiled one by one": (own_blocks, "eager", (1, "output", "values")),
    "another dtype": (
        either(lambda x, c: x.double() if c else x * 1),
        "eager",
        (1, "output", "dtype"),
    ),
    "another value of NumPy's": (either(drawn), "eager", (1, "output", "values")),
    "another dtype under dropout": (either(dropped), "eager", (1, "output", "dtype")),
    "another shape": (
        either(lambda x, c: {"boxes": x[:2] * 1 if c else x * 1}),
        "eager",
        (1, "output['boxes']", "shape"),
    ),
    "a missing result": (
        either(lambda x, c: [x + 1] if c else [x + 1, x + 2]),
        "eager",
        (1, "output[1]", "missing"),
    ),
    "one result more": (
        either(lambda x, c: [x + 1, x + 2] if c else [x + 1]),
        "eager",
        (1, "output[1]", "extra"),
    ),
    "another type": (
        either(lambda x, c: (x + 1,) if c else [x + 1]),
        "eager",
        (1, "output", "type"),
    ),
    "NaN": (
        either(lambda x, c: x / 0 * 0 if c else x * 1),
        "eager",
        (1, "output", "nan/inf"),
    ),
    "requires_grad": (
        either(
            lambda x, c: x.detach() * 2 if c else x * 2,
            (torch.rand(3, requires_grad=True),),
        ),
        "eager",
        (1, "output", "requires_grad"),
    ),
    "an alias of the input": (
        either(lambda x, c: x[0] if c else x[0].clone()),
        "eager",
        (1, "output", "alias"),
    ),
    "two results that share": (
        either(lambda x, c: (y := x + 1, y[0] if c else y[0].clone())),
        "eager",
        (1, "output[1]", "alias"),
    ),
    "a write to an input": (
        either(lambda x, c: x.add_(2 if c else 1).sum() * 0),
        "eager",
        (1, "input x after the call", "values"),
    ),
    "another stride": (
        either(lambda x, c: (x + 1).t().contiguous() if c else (x + 1).t()),
        "eager",
        (1, "output", "stride"),
    ),
    "another sign of zero": (
        either(lambda x, c: x * (0.0 if c else -0.0)),
        "eager",
        (1, "output", "sign of zero"),
    ),
    "small numbers": (either(small), "eager", (1, "output", "values")),
    "a column of small ones": (either(one_column), "eager", (1, "output", "values")),
    "a lost row of a gradient": (
        lambda: Given(Trained("row"), (torch.rand(64, 8),), train=True),
        "aot_eager",
        (1, "gradient of body.weight", "values"),
    ),
    "an input's other name": (
        either(lambda x, c: x.resize_(2, 2) if c and x.numel() == 9 else x.mul_(1)),
        "eager",
        (1, "output", "shape"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_differs_is_named(name):
    seed()
    make, backend, first = WRONG[name]
    torch.compiler.reset()
    judgement = found(make(), backend)
    assert judgement.differences, judgement
    one = judgement.differences[0]
    assert (one.call, *one.where) == first, judgement
    assert one.eager != one.compiled
    assert judgement.matches is one.look
    assert one.look == (one.field in ("stride", "sign of zero"))


def test_a_number_of_many_is_counted_and_shown():
    x = torch.arange(1.0, 13).view(3, 4)
    wrong = on_first(lambda y: y.index_fill(0, torch.tensor(1), 0))
    [one] = found(Given(lambda x: x * 2, (x,)), wrong).differences
    assert (one.count, one.of, one.eager, one.compiled) == (4, 12, "16 at [1, 3]", "0")
    assert (one.off_eager, one.off_compiled) == (0, 16)
    assert str(one) == (
        "call 1, output, values: eager ⟨16 at [1, 3]⟩, compiled ⟨0⟩; 4 of 12; "
        "off from float64 (eager, compiled): ⟨0, 16⟩"
    )


def test_a_wrong_answer_that_comes_once_is_told_so():
    calls = iter(range(100))
    wrong = on_first(lambda y: y + (next(calls) == 1))
    judgement = found(Given(lambda x: x * 2, (torch.rand(3),)), wrong)
    [one] = judgement.differences
    assert one.note == "in 1 of 3 rounds" and judgement.matches is False


def test_what_is_wrong_only_after_other_calls_says_so():
    calls = [(torch.full((3,), float(i)),) for i in range(1, 5)]
    third, fourth = found(Given(Keeps(), *calls), "eager").differences
    assert (third.call, fourth.call) == (3, 4)
    assert {third.note, fourth.note} == {"only after the calls before it"}


def test_an_eager_call_that_raises_refuses_no_other():
    calls = [(torch.rand(2, 4), torch.tensor([0, at])) for at in (1, 9)]
    p = Given(F.nll_loss, *calls)
    judgement = found(p, "aot_eager")
    assert [*p.fails] == [1] and len(p.calls) == 1 and len(p.every_call) == 2
    assert judgement.matches is True

    def passes(x, compiled):
        return x * 1 if compiled or len(x) < 3 else x.view(7)

    [one] = found(
        Given(Fresh(passes), (torch.rand(2),), (torch.rand(3),)), "eager"
    ).differences
    assert (one.call, one.field, one.compiled) == (2, "raises", "runs")


def test_calls_share_what_their_owner_shares():
    p = Given(appended, *shared_cache())
    caches = [inputs[1] for inputs, _ in p.calls]
    assert caches[0] is caches[1] is caches[2] is not p._calls[0][0][1]


def test_the_function_gives_the_differences_alone():
    p = Given(Fresh(lambda x, c: x * (2 if c else 1)), (torch.rand(3),))
    compiling = compiled_by(p, "eager")
    [one] = differences(p, compiling(), again=compiling)
    assert one.where == ("output", "values")
    assert differences(p, compiling(), calls=[((torch.zeros(3),), {})]) == ()


def test_a_table_has_only_the_columns_that_say_something():
    one = Difference(2, "output", "dtype", "float32", "float64")
    assert told.table([one]).headings == ("call", "place", "field", "eager", "compiled")
    assert told.table([one]).rows == (("2", "output", "dtype", "float32", "float64"),)
