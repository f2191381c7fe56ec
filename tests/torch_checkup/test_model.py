"""The model that is looked at: as its owner made it, called on copies, run eagerly."""

import json
import re

import pytest
import torch

from tests.torch_checkup.conftest import written
from torch_checkup import model as module
from torch_checkup.helpers.errors import InputError
from torch_checkup.model import Model
from torch_checkup.sandbox import Report


class Given(Model):
    """A model and its calls, given as they are."""

    def __init__(self, fn, *calls):
        self.order = {"timeout": 100.0, "budget": 0.1}
        self.fn = self.module = fn
        self.train, self.loss = False, None
        self._calls = [(inputs, {}) for inputs in calls]


MODEL = """
import functools
from torch import nn

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("n", torch.zeros(()))
    def forward(self, x, scale=1):
        self.n += 1
        return self.layer(x) * scale

def made(): return Counts(), [(torch.rand(2, 3),), {"x": torch.rand(4, 3), "scale": 2}]
def lossy(): return Counts(), (torch.rand(2, 3),), lambda out: out.sum() * 3
def whole(): return torch.compile(Counts(), backend="eager"), (torch.rand(2, 3),)

def parts():
    model = nn.Sequential(Counts(), nn.ReLU())
    model[0].compile(backend="eager")
    return model, (torch.rand(2, 3),)

class Unused(Counts):
    def __init__(self):
        super().__init__()
        self = torch.compile(self)
def unused(): return Unused(), (torch.rand(2, 3),)

class Served(Counts):
    def __init__(self):
        super().__init__()
        self.fast = torch.compile(self.answer, backend="eager")
    def answer(self, x):
        return self.layer(x).relu()
    def forward(self, x):
        return self.fast(x)
def served(): return Served(), (torch.rand(2, 3),)

LISTED = [torch.compile(lambda x: x.sin(), backend="eager")]
def takes_one(x): return LISTED[0](x)
def listed(): return takes_one, (torch.rand(3),)

@functools.cache
def hidden_one(): return torch.compile(lambda x: x.sin(), backend="eager")
def calls_one(x): return hidden_one()(x) + torch.compiler.is_compiling()
def hidden(): return calls_one, (torch.rand(3),)

def picky(x):
    if len(x) == 3:
        raise ValueError("not three")
    return x * 2
def some(): return picky, [(torch.rand(n),) for n in (2, 3, 4)]
def none(): return picky, (torch.rand(3),)

def grows(cache):
    cache.append(1)
    return torch.ones(2) * len(cache)
def cached():
    cache = []
    return grows, [(cache,), (cache,)]

def generated(): return sum, ((n for n in range(3)),)
def inner(x): return torch.autograd.grad((x.square()).sum(), x)[0]
def differentiates(): return inner, (torch.rand(3, requires_grad=True),)
"""


@pytest.fixture
def given(tmp_path):
    def make(name, train=False, **order):
        target = written(tmp_path, MODEL, name)
        return Model({"target": target, "train": train, **order})

    return make


def test_a_loss_makes_it_a_training_step(given):
    plain, trained, lossy = given("made"), given("made", True), given("lossy")
    assert [p.train for p in (plain, trained, lossy)] == [False, True, True]
    assert plain.run(plain.fn) is plain.fn
    x = lossy.calls[0][0][0]
    assert lossy.run(lossy.fn)(x).item() == pytest.approx(lossy.fn(x).sum().item() * 3)
    assert lossy.fn.layer.weight.grad is not None
    assert plain.module is plain.fn and given("hidden").module is None


def test_calls_are_copies_and_what_they_share_the_copies_share(given):
    p = given("made")
    (x,), kwargs = p.calls[0]
    x.zero_()
    assert p.calls[0][0][0].any() and kwargs == {}
    assert p.calls[1][0] == () and p.calls[1][1]["scale"] == 2
    (first,), (second,) = (inputs for inputs, _ in given("cached").calls)
    assert first is second
    with pytest.raises(InputError, match="the inputs cannot be copied: cannot"):
        given("generated").calls  # noqa: B018


def test_what_is_compiled_is_taken_off_and_what_is_inside_is_named(given):
    p = given("whole")
    assert p.whole and type(p.fn).__name__ == "Counts" and p.inside == ()
    assert p.eager is p.fn
    p = given("parts")
    assert not p.whole and p.inside == ("0",)
    assert p.compiled() is p.fn  # as its owner has it
    assert p.compiled(backend="eager") is not p.fn
    assert given("listed").inside == ("LISTED[0]",)
    p = given("hidden")
    assert p.inside == ()
    del p.inside
    p.try_out()
    assert p.inside == ("a function that it calls",)
    x = p.calls[0][0][0]
    assert torch.equal(p.eager(x), x.sin())


def test_what_is_compiled_and_never_called_is_named(given):
    p = given("unused")
    p.try_out()
    line = r"line \d+ of mine.py, in __init__: self = torch.compile\(self\)"
    assert re.fullmatch(line, p.unused) and not p.in_pieces
    for name in ("whole", "parts", "served", "made"):
        p = given(name)
        p.try_out()
        assert (p.unused, p.in_pieces) == ("", name in ("parts", "served"))


def test_pieces_go_to_another_backend_or_are_made_with_options(given):
    p, seen = given("served"), []
    x = p.calls[0][0][0]

    def backend(graph, _):
        seen.append([n.name for n in graph.graph.nodes if n.op.startswith("call")])
        return graph

    for run in (p.compiled(backend=backend), p.on(backend), p.on(backend, p.fn)):
        torch.compiler.reset()
        assert torch.equal(run(x), p.eager(x))
    assert len(seen) == 3 and all("relu" in names[-1] for names in seen)
    other = p.made_with(dynamic=True)
    assert other is not p.fn and torch.equal(other.layer.weight, p.fn.layer.weight)
    with pytest.raises(InputError, match="when its file is imported"):
        given("listed").made_with(dynamic=True)


def test_a_call_in_which_eager_raises_is_left_out(given):
    p = given("some")
    p.try_out()
    assert [str(error) for error in p.fails.values()] == ["not three"]
    assert (list(p.fails), len(p.calls), len(p.every_call)) == ([1], 2, 3)
    with pytest.raises(ValueError, match="not three"):
        given("none").try_out()


def test_grad_mode_is_needed_in_training_and_where_a_call_differentiates(given):
    models = given("made"), given("made", True), given("differentiates")
    assert [p.gradients for p in models] == [False, True, True]


def nothing(model, name):
    return {}


@pytest.fixture
def reported(given, tmp_path):
    """A function that returns the stages of a model and its parts."""

    def run(name, parts):
        report = Report(str(tmp_path / "report"))
        order = {"target": given(name).order["target"], "train": False, "parts": parts}
        module.in_turn(order, report, nothing)
        lines = (tmp_path / "report").read_text().splitlines()
        return [one["stage"] for one in map(json.loads, lines) if "stage" in one]

    return run


def test_a_model_that_runs_nowhere_here_may_still_be_dumped(reported):
    stages = [reported("none", parts) for parts in (["gpu"], ["gpu", "speed"])]
    first, tried = "make the model", "call it eagerly"
    assert stages == [[first, "gpu"], [first, tried, "gpu", "speed"]]
    with pytest.raises(ValueError, match="not three"):
        reported("none", ["speed"])
