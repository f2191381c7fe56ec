"""What a function holds besides its inputs is as before, whatever looked at it."""

import copy
from functools import partial

import pytest
import torch

from helpers import compare
from helpers.capture import Watch, graphs, recompiles
from helpers.codegen import kernels
from helpers.errors import InputError
from helpers.tensors import clone
from helpers.traffic import eager_bytes

LOOKS = {
    "graphs": graphs,
    "recompiles": lambda fn: recompiles(fn, [(), ()]),
    "kernels": kernels,
    "eager_bytes": eager_bytes,
}
X = torch.linspace(-1, 1, 12).reshape(3, 4)


def training(kind=torch.optim.SGD, **settings):
    """A model with gradients, its optimizer after a step, and what a step returns."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = kind(model.parameters(), **settings)
    model(X).sum().backward()
    optimizer.step()
    return model, optimizer


def state(model, optimizer):
    """All numbers of a training, as one flat list of tensors."""
    inner = torch.utils._pytree.tree_leaves(optimizer.state_dict())
    tensors = [
        torch.as_tensor(v) for v in inner if isinstance(v, (float, torch.Tensor))
    ]
    parameters = [*model.parameters()]
    grads = [p.grad for p in parameters if p.grad is not None]
    return [t.detach().clone() for t in (*tensors, *parameters, *grads)]


def same(a, b):
    return len(a) == len(b) and all(map(torch.equal, a, b))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {"lr": 0.1})],
    ids=["SGD", "AdamW"],
)
def test_a_step_of_an_optimizer_in_a_closure_changes_nothing(look, kind, settings):
    model, optimizer = training(kind, **settings)
    first = model.weight
    before = state(model, optimizer)
    look(lambda: (optimizer.step(), first)[1].sum())
    assert same(state(model, optimizer), before)
    look(lambda: (optimizer.step(), torch.ones(1))[1] + 1)  # only the optimizer
    assert same(state(model, optimizer), before)


def test_the_first_step_leaves_no_state_behind():
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(X).sum().backward()
    eager_bytes(lambda: (optimizer.step(), torch.ones(1))[1])
    assert not optimizer.state


def test_a_whole_training_step_changes_nothing():
    model, optimizer = training(torch.optim.Adam)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    before, gradients = state(model, optimizer), [p.grad for p in model.parameters()]
    eager_bytes(step, X, backward=False)
    assert same(state(model, optimizer), before)
    assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))


class Trainer:
    """Holds a tensor as people's own objects do."""

    def __init__(self):
        self.seen = torch.zeros(4)

    def step(self, x):
        self.seen += x.sum(0)
        return x * self.seen


total = torch.zeros(4)


def inner(x):
    total.add_(x.sum(0))
    return x + total


def calls_inner(x):
    return inner(x) * 2


def in_a_list(x):
    return [total.add_(row) for row in x][-1]


def test_tensors_a_function_finds_by_itself_are_as_before():
    trainer, kept, buffers = Trainer(), torch.zeros(4), [torch.zeros(4)]

    def closure(x):
        kept.add_(1)
        buffers[0].add_(1)
        return x + kept

    fns = [closure, trainer.step, calls_inner, in_a_list, partial(inner), kept.copy_]
    for fn in fns:
        x = X[0] if fn == kept.copy_ else X
        eager_bytes(fn, x)
        graphs(fn, x) if fn != kept.copy_ else None
    for tensor in (kept, buffers[0], trainer.seen, total):
        assert not tensor.any()


def marks(tensor):
    return {k: v for k, v in vars(tensor).items() if v not in (set(), {}, {0: []})}


MARKED = {
    "bounds": lambda x: torch._dynamo.mark_dynamic(x, 0, min=2, max=10),
    "static": lambda x: torch._dynamo.mark_static(x, 1),
    "perhaps": lambda x: torch._dynamo.maybe_mark_dynamic(x, 0),
    "unbacked": lambda x: torch._dynamo.decorators.mark_unbacked(x, 0),
}


@pytest.mark.parametrize("mark", MARKED.values(), ids=MARKED)
def test_a_copy_has_the_marks_of_its_dimensions(mark):
    x = torch.ones(4, 4)
    mark(x)
    twin = clone(x)
    assert marks(twin) == marks(x)
    assert vars(x)
    assert all(vars(twin)[k] is not v for k, v in marks(x).items() if v is not True)


def test_bounds_reach_the_compiler():
    x = torch.ones(4, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=3)
    with pytest.raises(InputError, match="not in range"):
        graphs(lambda x: x + 1, x)  # 4 lies outside


def test_compare_keeps_the_marks():
    x = torch.ones(64, 4)
    torch._dynamo.mark_dynamic(x, 0)
    sizes = []

    def backend(graph, inputs):
        sizes.append(any(isinstance(each, torch.SymInt) for each in inputs))
        return graph

    compare(torch.sin, torch.compile(torch.sin, backend=backend), x, budget=0.05)
    assert sizes == [True]


@pytest.mark.parametrize("compiled", [False, True])
def test_compare_leaves_a_module_as_it_was(compiled):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    before = copy.deepcopy(module.state_dict())
    other = torch.compile(module, backend="eager") if compiled else module
    found = compare(module, other, torch.randn(8, 4), budget=0.05)
    assert found.matches
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_compare_leaves_a_training_as_it_was():
    model, optimizer = training(torch.optim.SGD, lr=0.01)

    def step(x):
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    before = state(model, optimizer)
    compare(step, step, X, budget=0.05, same_answer=False)
    assert same(state(model, optimizer), before)


def test_a_compiled_module_stays_compiled_after_compare():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.last = torch.nn.BatchNorm1d(4), None

        def forward(self, x):
            self.last = self.norm(x)
            return self.last

    module, x = Counting(), torch.randn(8, 4)
    compiled = torch.compile(module, backend="eager")
    compare(module, compiled, x, budget=0.05)
    assert module.last is None
    with Watch() as watch:
        compiled(x)
    assert watch.compiles == 0
