"""``composes``: what people put around a training step, and what becomes of it."""

import dataclasses
from unittest import mock

import pytest
import torch

from tests.torch_checkup.conftest import written
from torch_checkup import composes, composing, sandbox
from torch_checkup.composing import Composition, Situation, TrainingStep, judged
from torch_checkup.helpers.errors import InputError
from torch_checkup.model import Model

MODELS = """
import functools
import os

import numpy
from torch import nn

# Without kernels it is quicker, also in the processes that import this.
torch.compile = functools.partial(torch.compile, backend="aot_eager")


class Net(nn.Module):
    def __init__(self, does=""):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 3)
        self.drop, self.norm = nn.Dropout(0.2), nn.BatchNorm1d(16)
        self.does = does  # under autocast

    def forward(self, x):
        out = self.down(self.drop(torch.relu(self.norm(self.up(x)))))
        compiling = torch.compiler.is_compiling()
        if not torch.is_autocast_enabled("cpu"):
            return out
        if self.does == "die":
            os._exit(3)
        if self.does == "raise" or (self.does == "raise eagerly" and not compiling):
            raise RuntimeError("it has no autocast")
        return out * 1.2 if compiling else out


class Noisy(Net):  # draws with NumPy, which compiled code would leave to torch
    def forward(self, x):
        return super().forward(x) + torch.from_numpy(numpy.random.rand(3)).float()


class Strips(Net):  # what a compiled one adds to its keys
    def load_state_dict(self, state, *rest):
        state = {key.removeprefix("_orig_mod."): value for key, value in state.items()}
        return super().load_state_dict(state, *rest)


def loss(out):
    return nn.functional.cross_entropy(out, torch.arange(len(out)) % 3)


def inputs():
    torch.manual_seed(1)
    return [(torch.randn(6, 8),), (torch.randn(4, 8),)]


def maker(kind, *does):
    return lambda: (kind(*does), inputs(), loss)


differs, strips = maker(Net), maker(Strips)
raises, raises_eagerly = maker(Net, "raise"), maker(Net, "raise eagerly")


def dies():  # no loss: a weighted sum is trained
    return Noisy("die"), inputs()


def function():
    return torch.sin, (torch.ones(3, requires_grad=True),)


WEIGHT = torch.ones(3, requires_grad=True)


def moved(x):  # wrong once the weight is no longer 1
    return (x * WEIGHT).sin() + 1e6 * (WEIGHT - 1)**2 * torch.compiler.is_compiling()


def with_a_weight():
    return moved, (torch.ones(3),)


def line():  # its gradient is the input, and its loss the sum of the output
    model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Identity())
    nn.init.ones_(model[0].weight)
    calls = [(torch.tensor([[1.0, 2.0]]),), (torch.tensor([[3.0, 5.0]]),)]
    return model, calls, torch.sum


def nothing():
    return torch.sin, (torch.ones(3),)
"""


@pytest.fixture
def target(tmp_path, monkeypatch):
    """A function that returns the target of a model."""
    monkeypatch.setattr(torch, "compile", torch.compile)  # which the models replace
    return lambda name: written(tmp_path, MODELS, name)


@pytest.fixture
def judge(target):
    """A function that judges a model here."""

    def judge(name, *situations):
        model = Model({"target": target(name), "train": True})
        model.try_out()
        return [Situation(around, **judged(model, around)) for around in situations]

    return judge


USUAL = {"autocast": "not done", "retain_graph": "raises", "late hook": "differs"}
USUAL |= {"worker process": "agrees", "two ranks": "agrees"}


@pytest.mark.weekly
def test_what_kills_its_process_leaves_the_others(target):
    """Else the model is healthy.  Lesson 20 has all situations within one process."""
    found = composes(target("dies"), only=list(USUAL))
    assert {one.name: one.verdict for one in found.situations} == USUAL, found
    assert "status 3" in found["autocast"].says
    assert found["retain_graph"].known == "donated buffers" in str(found)
    assert found.ok  # the two are those of every compiled model
    assert Composition.from_json(found.to_json()) == found
    assert "compiled ⟨" in found._repr_html_()  # numbers are marked, as in the text


def test_what_differs_in_silence_is_found(judge):
    autocast, checkpoint = judge("differs", "autocast", "checkpoint")
    assert (autocast.verdict, checkpoint.verdict) == ("differs", "agrees")
    assert not Composition("m:make", (autocast, checkpoint)).ok


@pytest.mark.parametrize("of", ["raises", "not done"])
def test_the_part_names_what_does_not_agree(of):
    rows = [Situation("autocast", "agrees", ""), Situation("checkpoint", of, "")]
    rows += [Situation("retain_graph", "raises", "")]  # as with every compiled model
    part = composing.verdict_on(Composition("m:make", tuple(rows)))
    assert (part.verdict, "checkpoint" in part.says) == ("look", True)
    assert part.says.startswith("1 of 3 agree; ") and part.counts["raises"] == (
        of == "raises"
    )
    assert part.advice == (composing.SITUATIONS["retain_graph"].advice,)


def test_the_part_asks_with_its_limits(monkeypatch):
    result = Composition("m:make", (Situation("autocast", "agrees", ""),))
    asked, limits = mock.Mock(return_value=result), {"timeout": 3.0, "memory": 7}
    monkeypatch.setattr(composing, "composes", asked)
    part = composing.part({"target": "m:make", "budget": 1.0, **limits})
    assert part == composing.verdict_on(result) and part.evidence == (result.table(),)
    asked.assert_called_once_with("m:make", **limits)
    asked.return_value = dataclasses.replace(result, interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        composing.part({"target": "m:make", **limits})


def test_where_eager_raises_the_row_says_so(judge):
    said = "RuntimeError: it has no autocast"
    for model, says in (("raises_eagerly", f"eager alone: {said}"), ("raises", said)):
        [row] = judge(model, "autocast")
        assert (row.verdict, row.says) == ("eager raises", says)


def test_of_two_ways_it_names_the_one_that_fails(judge):
    [row] = judge("strips", "state_dict")
    good, bad = "compiled into plain", "plain into compiled"
    assert row.verdict == "raises"
    assert row.says.startswith(f"{good} agrees: off from float64"), row.says
    assert f"; {bad} raises: " in row.says, row.says


def test_a_function_is_trained_by_what_it_holds_or_is_given(judge):
    around = "gradient hook", "scheduler", "late hook"
    rows = judge("with_a_weight", *around[:2])
    assert [row.verdict for row in rows] == ["agrees", "differs"], rows
    *rows, layers = judge("function", *around)
    assert [row.verdict for row in rows] == ["agrees", "agrees"], rows
    assert layers.verdict == "not decided" and "it is a function" in layers.says


@pytest.fixture
def a_step(target):
    """A function that returns a training step of ``line``, and its first call."""

    def a_step():
        model = Model({"target": target("line"), "train": True})
        return TrainingStep(model, False, ""), model.calls[0]

    return a_step


@pytest.mark.parametrize(
    ("name", "loss", "gradient"),
    [
        ("step", 3.0, [1.0, 2.0]),
        ("autocast", 3.0, [1.0, 2.0]),
        ("checkpoint", 3.0, [1.0, 2.0]),
        ("accumulation", 5.5, [2.0, 3.5]),  # the mean of both calls
        ("retain_graph", 3.0, [2.0, 4.0]),  # two backwards
        ("gradient_hook", 3.0, [2.0, 4.0]),
        ("late_hook", 6.0, [2.0, 4.0]),
    ],
)
def test_each_situation_has_its_loss_and_gradient(name, loss, gradient, a_step):
    step, call = a_step()
    assert getattr(step, name)(call).item() == loss
    [weight] = step.leaves
    assert weight.grad.tolist() == [gradient]
    step.begin(call)
    assert weight.grad is None
    assert step.step(call).item() == 3.0, "a hook is left"


@pytest.mark.parametrize("compiling", [False, True])
def test_an_optimizer_is_compiled_with_its_model(compiling, target, monkeypatch):
    model, asked = Model({"target": target("line"), "train": True}), []
    step = TrainingStep(model, compiling, "")
    monkeypatch.setattr(torch, "compile", lambda fn: asked.append(fn.__name__) or fn)
    assert step.scheduler(model.calls[0]).item() < 3.0  # the steps are made
    assert asked == ["step"] * compiling


def test_two_ranks_leave_gradients_of_the_model_alone(a_step):
    step, (inputs, kwargs) = a_step()
    inputs[0].requires_grad_()
    assert composing._both_ranks(step, (inputs, kwargs)).item() == 5.5
    assert step.leaves[0].grad.tolist() == [[2.0, 3.5]] and inputs[0].grad is None


def test_bad_input_says_what_to_do(target, judge):
    with pytest.raises(InputError, match="there is no dropout: there are autocast"):
        composes(target("net"), only=("dropout",))
    with pytest.raises(InputError, match="return a loss"):
        judge("nothing")


def test_an_interrupt_keeps_what_is_done(tmp_path, monkeypatch):
    good = Situation("two ranks", "agrees", "near")

    def parts(*_):
        yield "", {"trains": True}
        yield "autocast", {"problem": "it took more than 7 B", "ended": "memory"}
        yield "two ranks", dataclasses.asdict(good)
        raise KeyboardInterrupt

    monkeypatch.setattr(sandbox, "parts", parts)
    (tmp_path / "mine.py").touch()
    found = composes(f"{tmp_path}/mine.py:make")
    ended = Situation("autocast", "not done", "it took more than 7 B")
    assert (found.target, found.situations) == ("mine.py:make", (ended, good))
    assert found.interrupted and "interrupted" in str(found)
    with pytest.raises(KeyError, match=r"no 'late hook': there are .*'two ranks'"):
        found["late hook"]
