"""The judge names what differs by place and field, and raises no false alarms.

A program is wrong by a fault that is planted where compilers have theirs: in the graph,
in what runs it, in a backward.
"""

import collections
import math
import random
import time
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from helpers.judge import SEEDED, differences, judged
from helpers.session import fresh_code

pytestmark = pytest.mark.usefixtures("one_thread")


def found(fn, *calls, backend="aot_eager", train=False):
    """Return the judgement on a model that *backend* compiles."""

    def compiling():
        torch.compiler.reset()
        return torch.compile(fresh_code(fn), backend=backend)

    return judged(
        fn,
        compiling(),
        [(inputs, {}) for inputs in calls],
        gradients=train and (lambda out: out.square().sum()),
        model=fn,
        again=compiling,
    )


def on_first(change):
    """Return a back end whose first result *change* makes another."""

    def backend(graph, _):
        def run(*inputs):
            first, *rest = graph(*inputs)
            return [change(first), *rest]

        return run

    return backend


class Does(nn.Module):
    """Does *way* with what it holds."""

    def __init__(self, way, **held):
        super().__init__()
        self.way = way
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, x, *more):
        return self.way(self, x, *more)


def keeps(model, x):
    """Keep the last two inputs."""
    model.kept.append(x)
    return torch.stack(list(model.kept)).sum(0)


def hooked():
    model = Does(lambda m, x: m.inner(x) * 0 + m.kept, inner=nn.ReLU(), kept=None)
    model.inner.register_forward_hook(lambda *given: setattr(model, "kept", given[2]))
    return model


def keeping():
    return Does(keeps, kept=collections.deque(maxlen=2))


def fresh(way):
    """Return a module that takes another way when it is compiled."""
    return Does(lambda _, x: way(x, torch.compiler.is_compiling()))


# ------------------------------------------------------------------------- false alarms

SCALE = torch.linspace(0.5, 1.5, 3)


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


ROWS = torch.rand(16, 8)
ALIKE = {  # a model, and its calls
    "dropout": lambda: (nn.Dropout(), (torch.rand(64),)),
    "dropout, trained": lambda: (nn.Sequential(nn.Linear(8, 8), nn.Dropout()), (ROWS,)),
    "numbers of NumPy": lambda: (
        lambda x: x * torch.from_numpy(np.random.rand(64)),
        (torch.rand(64),),
    ),
    "BatchNorm, trained": lambda: (norm(), (ROWS,)),
    "views and writes": lambda: (in_place, (torch.rand(4, 4),)),
    "ill-conditioned": lambda: (chaotic, (torch.rand(64),)),
    "no numbers": lambda: (lambda x: x + 1, (torch.zeros(0, 3),)),
    "noise around 0": lambda: (lambda x: x.softmax(-1).sum(-1) - 1, (ROWS,)),
    "NaN on purpose": lambda: (lambda x: (x / x * math.inf).softmax(-1), (ROWS,)),
    "a deque that is read": lambda: (keeping(), (torch.ones(3),)),
    "a hook that knows the model": lambda: (hooked(), (ROWS,)),
    "numbers of Python": lambda: (
        Does(lambda m, x: x * m.rng.random(), rng=random.Random(0)),
        *[(ROWS,)] * 3,
    ),
    "a tensor of the file": lambda: (lambda x: x * SCALE, (torch.ones(3),)),
    "a counter": lambda: (norm(), *[(ROWS,)] * 3),
    "both raise": lambda: (
        lambda x, at: F.embedding(at, x),
        *((torch.rand(3, 2), torch.tensor([at])) for at in (2, 7)),
    ),
    "one call raises": lambda: (
        F.nll_loss,
        *((torch.rand(2, 4), torch.tensor([0, at])) for at in (1, 9)),
    ),
    "the input comes back": lambda: (lambda x: (x, x[0], x + 1), (ROWS,)),
    "a text and a number": lambda: (
        lambda x: {"name": "a", "n": x.shape[0], "x": x.sin()},
        (ROWS,),
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_only_looks_wrong_is_no_difference(name):
    torch.manual_seed(0)
    judgement = found(*ALIKE[name](), train="trained" in name)
    assert judgement.differences == () and judgement.matches is True, judgement


def test_rounding_that_turns_a_whole_number_is_no_difference():
    """Eager itself gives others, where the last digit of what it is given moves."""
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 64), torch.randn(512, 64)

    def rounds(x):
        return (layer(x) * 4000).round().to(torch.int64)

    def otherwise(x, off=0):
        parts = zip(x.split(16, 1), layer.weight.split(16, 1), strict=True)
        sums = sum(a @ b.t() for a, b in parts) + layer.bias
        return (sums * 4000).round().to(torch.int64) + off

    assert not torch.equal(otherwise(x), rounds(x))
    assert differences(rounds, otherwise, [(x,)]) == ()
    wrong = partial(otherwise, off=torch.arange(64) == 7)
    [one] = differences(rounds, wrong, [(x,)])
    assert one.where == ("output", "values")


# -------------------------------------------------------------------------------- wrong


def trained(model, x):
    """Multiply by a weight; compiled, its gradient loses a row."""
    weight = model.body.weight
    if torch.compiler.is_compiling():
        kept = torch.arange(len(weight))[:, None] != 7
        weight = torch.where(kept, weight, weight.detach())
    return x @ weight.t()


ONES = torch.ones(3)
FOUR = [(torch.full((3,), float(i)),) for i in range(1, 5)]


TWO_WAYS = {  # what is done of x, eagerly or compiled, and the place and field
    "dtype": (lambda x, c: x.double() if c else x * 1, "output", "dtype"),
    "value of NumPy's": (
        lambda x, c: x * torch.from_numpy(np.random.rand(3)) * (1.5 if c else 1),
        "output", "values"),
    "dtype under dropout": (
        lambda x, c: F.dropout(x).double() if c else F.dropout(x), "output", "dtype"),
    "shape": (
        lambda x, c: {"boxes": x[:2] * 1 if c else x * 1}, "output['boxes']", "shape"),
    "missing": (
        lambda x, c: [x + 1] if c else [x + 1, x + 2], "output[1]", "missing"),
    "one more": (lambda x, c: [x + 1, x + 2] if c else [x + 1], "output[1]", "extra"),
    "type": (lambda x, c: (x + 1,) if c else [x + 1], "output", "type"),
    "NaN": (lambda x, c: x / 0 * 0 if c else x * 1, "output", "nan/inf"),
    "requires_grad": (
        lambda x, c: x.detach() * 2 if c else x * 2, "output", "requires_grad"),
    "a copy": (lambda x, c: x * 1 if c else x, "output", "identity"),
    "an alias of the input": (
        lambda x, c: x[0] if c else x[0].clone(), "output", "alias"),
    "two results that share": (
        lambda x, c: (y := x + 1, y[0] if c else y[0].clone()), "output[1]", "alias"),
    "a write": (
        lambda x, c: x.add_(2 if c else 1).sum() * 0,
        "input x after the call", "values"),
    "stride": (
        lambda x, c: (x + 1).t().contiguous() if c else (x + 1).t(),
        "output", "stride"),
    "sign of zero": (lambda x, c: x * (0.0 if c else -0.0), "output", "sign of zero"),
    "small numbers": (lambda x, c: x * 1e-6 * (1.01 if c else 1), "output", "values"),
    "a column of small ones": (
        lambda x, c: x * torch.tensor([1.0, 1e-7 if c else 1e-6, 1.0]),
        "output", "values"),
    "an input's other name": (
        lambda x, c: x.resize_(2, 2) if c and x.numel() == 9 else x.mul_(1),
        "output", "shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_WAYS)
def test_what_differs_is_named(name):
    torch.manual_seed(0)
    way, *where = TWO_WAYS[name]
    x = torch.rand(3, 3, requires_grad=name == "requires_grad")
    judgement = found(fresh(way), (x,), backend="eager")
    assert judgement.differences, judgement
    one = judgement.differences[0]
    assert (one.call, *one.where) == (1, *where), judgement
    assert one.eager != one.compiled
    assert judgement.matches is one.look
    assert one.look == (one.field in ("stride", "sign of zero"))


def test_a_lost_row_of_a_gradient_is_named():
    model = Does(trained, body=nn.Linear(8, 4000))
    one, *_ = found(model, (ROWS,), train=True).differences
    assert (one.place, one.field) == ("gradient of body.weight", "values")


# ------------------------------------------------------------- how a difference is told

X = torch.linspace(0.5, 2, 3)


def told(model, *calls, backend="eager"):
    return [
        (one.call, one.place, one.field, one.eager, one.compiled, one.note)
        for one in found(model, *calls, backend=backend).differences
    ]


def test_a_number_of_many_is_counted_and_shown():
    x = torch.arange(1.0, 13).view(3, 4)
    wrong = on_first(lambda y: y.index_fill(0, torch.tensor(1), 0))
    [one] = found(lambda x: x * 2, (x,), backend=wrong).differences
    assert (one.count, one.of, one.eager, one.compiled) == (4, 12, "16 at [1, 3]", "0")
    assert (one.off_eager, one.off_compiled) == (0, 16)
    assert str(one) == (
        "call 1, output, values: eager ⟨16 at [1, 3]⟩, compiled ⟨0⟩; 4 of 12; "
        "off from float64 (eager, compiled): ⟨0, 16⟩"
    )
    a_little = on_first(lambda y: y * (1 + 2e-7))
    [one] = found(lambda x: x.double(), (x,), backend=a_little).differences
    assert one.eager.split()[0] != one.compiled  # as they are in six digits


def counts(model, x, second):
    """Count the calls; compiled, it is wrong where the second is the first."""
    model.n += 1
    first = (model.n == 1) & torch.compiler.is_compiling()
    return x + first * second


def test_when_it_is_wrong_is_told():
    calls = iter(range(100))
    once = on_first(lambda y: y + (next(calls) == 1))
    [one] = told(lambda x: x * 2, (X,), backend=once)
    assert one[5] == "in 1 of 3 rounds"
    third, fourth = told(keeping(), *FOUR)
    assert (third[0], fourth[0]) == (3, 4)
    assert {third[5], fourth[5]} == {"only after the calls before it"}
    model = Does(counts, n=nn.Buffer(torch.zeros(())))
    [one] = told(model, (X, torch.zeros(())), (X, torch.ones(())))
    assert one == (2, "output", "values", "0.5 at [0]", "1.5", "called by itself")


def raises_of_two(x, compiled):
    if x[0] < 0:
        raise TypeError("of torch") if compiled else ValueError("of eager")
    return x * 2


def test_an_exception_has_its_call_and_both_messages():
    [one] = told(fresh(raises_of_two), (X,), (-X,))
    said = "ValueError: of eager", "TypeError: of torch"
    assert one == (2, "the call", "exception", *said, "")

    def refuses(x):  # an assert, compiled, raises another class
        torch._assert(x[0] > 0, "small")
        return x * 2

    [one] = found(refuses, (-X,)).differences
    assert (one.look, one.compiled) == (True, "RuntimeError: small")

    def passes(x, compiled):
        return x * 1 if compiled or len(x) < 3 else x.view(7)

    [one] = told(fresh(passes), (X[:2],), (X,))
    assert (one[0], one[2], one[4]) == (2, "raises", "runs")


@pytest.mark.parametrize(
    ("way", "differs"),
    [
        (lambda x, c: None if c else x * 2, ("missing", "float32 (3,)", "nothing")),
        (lambda x, c: x.int() if c else None, ("extra", "nothing", "int32 (3,)")),
        (lambda x, c: x.int() if c else x * 2, ("dtype", "float32", "int32")),
        (lambda x, c: x[:1] * 1 if c else x * 1, ("shape", "(3,)", "(1,)")),
    ],
)
def test_what_a_call_leaves_behind_is_told_with_its_form(way, differs):
    def keeps_as(model, x):
        model.kept = way(x, torch.compiler.is_compiling())
        return x + 1

    [one] = told(Does(keeps_as), (X,))
    assert one == (1, "kept after the call", *differs, "")


def writes_all(model, x):
    """Write into what it holds, and is given."""
    one = 2 if torch.compiler.is_compiling() else 1
    with torch.no_grad():
        for held in (x, model.n, model.scale, model.plain):
            held[0].add_(one)
    return x.sum() * 0 + 1


def test_what_is_written_to_has_the_name_of_what_it_is():
    n, scale, plain = (torch.ones(2) for _ in range(3))
    held = {"n": nn.Buffer(n), "scale": nn.Parameter(scale), "plain": plain}
    names = ("buffer n", "parameter scale after the call")
    names += ("plain after the call", "input x after the call")
    assert {one[1:4] for one in told(Does(writes_all, **held), (torch.ones(2),))} == {
        (name, "values", "1 at [0]") for name in names
    }


class Opened:
    """What a library returns, of which torch knows the parts, but not their places."""

    def __init__(self, *parts):
        self.parts = parts


pytree.register_pytree_node(Opened, lambda o: (o.parts, None), lambda p, _: Opened(*p))


def test_what_torch_opens_without_names_is_judged_part_by_part():
    [one] = told(fresh(lambda x, compiled: (x, Opened(x * 2, x * 3 + compiled))), (X,))
    assert one[:3] == (1, "output[1][1]", "values")


TALLY = 0


class Keeps(nn.Module):
    """Changes something that is no tensor; compiled, it does not, where it says so."""

    hits = 0

    def __init__(self, way, lost):
        super().__init__()
        self.way, self.lost, self.mean, self.seen = way, lost, 0.0, {1}
        self.rows = collections.OrderedDict(a=torch.ones(2), b=torch.ones(2))
        self.deep = {"inner": {"n": 0}}

    def forward(self, x):
        if not (self.lost and torch.compiler.is_compiling()):
            getattr(self, self.way)(x)
        return x * 2

    def order(self, _):
        self.rows.move_to_end("a")

    def number(self, _):
        self.mean = 2.5

    def rounded(self, x):
        self.mean = 0.1 if torch.compiler.is_compiling() else 0.1 + 1e-7

    def nested(self, _):
        self.deep["inner"]["n"] += 1

    def a_set(self, _):
        self.seen.add(2)

    def of_class(self, _):
        Keeps.hits += 1

    def of_file(self, _):
        global TALLY
        TALLY += 1


KEPT = {
    "order": ("rows", "{'b': 'Tensor', 'a': 'Tensor'}"),
    "number": ("mean", "2.5"),
    "nested": ("deep['inner']", "{'n': 1}"),
    "a_set": ("seen", "[1, 2]"),
    "of_class": ("hits", "1"),
    "of_file": ("TALLY", "1"),
    "rounded": (),
}


@pytest.mark.parametrize("way", KEPT)
def test_numbers_and_texts_that_a_call_changes_are_compared(way):
    if way != "order":  # which torch 2.15 loses by itself
        assert found(Keeps(way, lost=False), (X,), (X,)).matches
    judgement = found(Keeps(way, lost=True), (X,))
    told = [(d.place, d.field, *d.sides) for d in judgement.differences]
    if KEPT[way]:
        place, ours = KEPT[way]
        field = f"{place} after the call", "values"
        assert told == [(*field, f"⟨{ours}⟩", "⟨as before⟩")]


def test_numbers_that_a_call_seeds_itself_are_others_by_design():
    def seeds(x):
        torch.manual_seed(7)
        return x + torch.rand_like(x)

    def other(x):
        seeds(x)
        return seeds(x) + torch.compiler.is_compiling()

    judgement = found(seeds, (X,), backend="inductor")
    assert judgement.matches and judgement.notes == (SEEDED,)
    assert found(other, (X,), backend="inductor").matches is False


def test_a_long_sum_may_be_off_by_its_rounding():
    def added(share):
        return on_first(lambda out: out * (1 + share))

    x = torch.rand(20000)
    assert found(torch.sum, (x,), backend=added(2e-6)).matches
    assert found(torch.sum, (x,), backend=added(1e-4)).matches is False
    assert found(torch.sum, (x[:4],), backend=added(1e-5)).matches is False


def test_what_is_lost_of_a_list_is_told_unless_it_is_new_each_time():
    def noting(way):
        def f(model, x):
            way(model.notes)
            return x + 1

        return Does(f, notes=[])

    def when_eager(notes):
        if not torch.compiler.is_compiling():
            notes.append("seen")

    for healthy in (lambda n: n.append(len(n)), lambda n: n.append(time.time_ns())):
        assert told(noting(healthy), (X,)) == []
    [one] = told(noting(when_eager), (X,))
    assert one == (1, "notes after the call", "values", "['seen']", "as before", "")


# ------------------------------------------------------------------------ two functions

TWO_FUNCTIONS = {  # reference, answer, inputs, gradients, and what is said
    "a Counter": (collections.Counter, lambda a: collections.Counter(a + a), ("a",),
                  False, ["output is Counter({'a': 2}) instead of Counter({'a': 1})"]),
    "an array": (lambda a: a + 1, lambda a: a + 2, (np.ones(2),), False,
                 ["output is 3 instead of 2 at [0] (2 of 2 differ)"]),
    "a huge number": (lambda a: 2**a, lambda a: 2**a + 1, (64,), False,
                      [f"output is {2**64 + 1} instead of {2**64}"]),
    "a type": (lambda a: a, float, (3,), False,
               ["output has type float instead of int"]),
    "a key": (lambda a: {"a": a}, lambda a: {"b": a}, (3,), False,
              ["output['a'] is missing: int64 ()", "output['b'] is extra: int64 ()"]),
    "a list that is written to": (
        lambda a: a.append(3), lambda b: b.append(4), ([1],), False,
        ["input a after the call is [1, 4] instead of [1, 3]"]),
    "a tensor that is not": (
        lambda a: a.add_(1).sum(), lambda b: (b + 1).sum(), (ONES,), False,
        ["input a after the call changed by 0 instead of 1 at [0] (3 of 3 differ)"]),
    "a dtype": (lambda a: a.sum(), lambda a: a.sum().double(), (ONES,), False,
                ["output has dtype float64 instead of float32"]),
    "an error": (lambda a: a, lambda a: 1 / 0, (ONES,), False,
                 ["raises ZeroDivisionError: division by zero"]),
    "a gradient": (
        lambda x: x * 2, lambda x: (x * 2).detach() + 0 * x, (ONES,), True,
        ["gradient of input x is -0 instead of -12 at [0] (3 of 3 differ)"]),
    "random numbers": (
        lambda x: x * torch.rand(3), lambda x: x * torch.rand(3) * 1.001, (ONES,),
        False, ["output is 0.76899 instead of 0.768222 at [1] (3 of 3 differ)"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_FUNCTIONS)
def test_two_functions_are_compared_by_what_they_give(name):
    eager, other, inputs, gradients, says = TWO_FUNCTIONS[name]
    found = differences(eager, other, [inputs], gradients)
    assert [one.says for one in found] == says
    assert differences(eager, eager, [inputs], gradients) == ()


def test_two_functions_may_differ_in_strides_aliases_and_names():
    weight = torch.rand(3, 3, requires_grad=True)
    layer = nn.Linear(3, 3, bias=False)
    layer.weight = nn.Parameter(weight.detach().clone())

    def eager(x):
        return x @ weight.t(), x

    def other(y):
        return layer(y.t().contiguous().t()).t().contiguous().t(), y.clone()

    calls = [(torch.rand(3, 3),), {"x": torch.rand(3, 3)}]
    assert differences(eager, other, calls[:1], gradients=True) == ()
    with pytest.raises(TypeError):  # of eager
        differences(lambda: 1, other, calls)


def test_a_compile_that_draws_eager_s_numbers_is_compared():
    model = nn.Sequential(nn.Dropout(), nn.Linear(3, 3))
    compiled = torch.compile(model, backend="eager")
    assert differences(model, compiled, [(torch.rand(9, 3),)], gradients=True) == ()
