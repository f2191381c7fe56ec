"""``composes``: what people put around a training step, and what becomes of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from helpers import checkup, composes
from helpers.errors import InputError
from helpers.own_model import children, composition
from helpers.own_model.composition import SITUATIONS, WAYS, Composition, Situation

MODELS = """
import os

import numpy
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 3)
        self.drop, self.norm = nn.Dropout(0.2), nn.BatchNorm1d(16)

    def forward(self, x):
        return self.down(self.drop(torch.relu(self.norm(self.up(x)))))


class Differs(Net):  # in the dtype of autocast alone
    def forward(self, x):
        y = super().forward(x)
        return y * 1.2 if torch.compiler.is_compiling() and y.dtype != x.dtype else y


class Dies(Net):
    def forward(self, x):
        os._exit(3) if torch.is_autocast_enabled("cpu") else None
        return super().forward(x)


class OnlyCompiled(Net):
    def forward(self, x):
        if torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling():
            raise RuntimeError("eager has no autocast")
        return super().forward(x)


class Alone(Net):
    def forward(self, x):
        ranks = torch.distributed
        if ranks.is_initialized() and ranks.get_rank() == 0:
            raise RuntimeError("rank 0 has no data")
        return super().forward(x)


class Strips(Net):  # what a compiled one adds to its keys
    def load_state_dict(self, state, *rest):
        state = {key.removeprefix("_orig_mod."): value for key, value in state.items()}
        return super().load_state_dict(state, *rest)


class NoPrefix(Net):  # so DDP cannot have it compiled
    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        if prefix == "_orig_mod":
            raise RuntimeError("no prefix here")
        return super().named_modules(memo, prefix, remove_duplicate)


def loss(out):
    return nn.functional.cross_entropy(out, torch.arange(len(out)) % 3)


def inputs():
    torch.manual_seed(1)
    return [(torch.randn(6, 8),), (torch.randn(4, 8),)]


def maker(kind):
    return lambda: (kind(), inputs(), loss)


net, differs, dies, only_compiled, alone, strips, no_prefix = map(
    maker, (Net, Differs, Dies, OnlyCompiled, Alone, Strips, NoPrefix)
)


def bare():  # no loss: the sum is trained
    return Net(), inputs()


def function():
    return torch.sin, (torch.ones(3, requires_grad=True),)


def unseeded():
    target = numpy.random.rand()
    layers = nn.Sequential(nn.Linear(4, 4))
    return layers, (torch.rand(3, 4),), lambda out: ((out - target)**2).sum()


WEIGHT = torch.ones(3, requires_grad=True)


def moved(x):  # wrong once the weight is no longer 1
    return (x * WEIGHT).sin() + 1e6 * (WEIGHT - 1)**2 * torch.compiler.is_compiling()


def with_a_weight():
    return moved, (torch.ones(3),)


def nothing():
    return torch.sin, (torch.ones(3),)


class Fixed(nn.Module):  # takes no tensor, and trains none of its layer
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 4), nn.Parameter(torch.ones(4))
        self.layer.requires_grad_(False)

    def forward(self, n):
        return self.layer(self.scale * n)


def takes_a_number():
    return Fixed(), (2.0,)


def frozen():
    return Fixed().requires_grad_(False), (torch.ones(4, requires_grad=True),)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "models_around.py"
    path.write_text(MODELS)
    return path


@pytest.fixture(scope="module")
def uncoded(models: Path) -> Path:
    """The same models, compiled without kernels: quicker."""
    path = models.with_name("models_uncoded.py")
    light = 'torch.compile = functools.partial(torch.compile, backend="aot_eager")'
    path.write_text(f"import functools\n{MODELS}\n{light}\n")
    return path


def test_a_healthy_model(models: Path) -> None:
    """Lesson 20 has all situations but those of two processes."""
    usual = {"retain_graph": "raises", "late hook": "differs"}
    usual |= {"worker process": "agrees", "two ranks": "agrees"}
    found = composes(f"{models}:net", only=list(usual))
    assert {one.name: one.verdict for one in found.situations} == usual
    assert found["retain_graph"].known == "donated buffers"
    assert found.ok  # the two are those of every compiled model
    assert Composition.from_json(found.to_json()) == found
    assert "donated buffers" in str(found)
    assert "⟨" not in found._repr_html_()


def test_what_differs_in_silence_is_found(uncoded: Path) -> None:
    found = composes(f"{uncoded}:differs", only=("autocast", "checkpoint"))
    assert found["autocast"].verdict == "differs"
    assert found["checkpoint"].verdict == "agrees"
    assert not found.ok


def test_a_situation_that_kills_its_process_leaves_the_others(uncoded: Path) -> None:
    found = composes(f"{uncoded}:dies", only=("autocast", "accumulation"))
    assert found["autocast"].verdict == "not done"
    assert "status 3" in found["autocast"].says
    assert found["accumulation"].verdict == "agrees"


def test_where_eager_alone_raises_the_row_says_so(uncoded: Path) -> None:
    [row] = composes(f"{uncoded}:only_compiled", only=("autocast",)).situations
    assert row.verdict == "eager raises"
    assert row.says == "eager alone: RuntimeError: eager has no autocast"


def test_the_rank_that_failed_first_tells_why(uncoded: Path) -> None:
    [row] = composes(f"{uncoded}:alone", only=("two ranks",)).situations
    assert row.verdict == "eager raises"
    assert row.says.endswith("in one rank: RuntimeError: rank 0 has no data")


def test_two_ranks_are_given_the_inputs_that_eager_has(uncoded: Path) -> None:
    [row] = composes(f"{uncoded}:unseeded", only=("two ranks",)).situations
    assert row.verdict == "agrees", row.says


@pytest.mark.parametrize(
    ("model", "situation"), [("strips", "state_dict"), ("no_prefix", "two ranks")]
)
def test_of_two_ways_it_names_the_one_that_fails(
    uncoded: Path, model: str, situation: str
) -> None:
    [row] = composes(f"{uncoded}:{model}", only=(situation,)).situations
    good, bad = WAYS[situation]
    assert row.verdict == "raises"
    assert row.says.startswith(f"{good} agrees: off from float64"), row.says
    assert f"; {bad} raises: " in row.says, row.says


def test_without_a_loss_a_worker_process_is_judged_too(models: Path) -> None:
    [row] = composes(f"{models}:bare", only=("worker process",)).situations
    assert row.verdict == "agrees", row.says


def test_a_function_is_trained_by_what_it_holds_or_is_given(uncoded: Path) -> None:
    around = "gradient hook", "scheduler"
    found = composes(f"{uncoded}:with_a_weight", only=around)
    verdicts = found["gradient hook"].verdict, found["scheduler"].verdict
    assert verdicts == ("agrees", "differs"), str(found)
    found = composes(f"{uncoded}:function", only=(*around, "late hook"))
    assert sorted(found.named("agrees")) == sorted(around), str(found)
    assert found["late hook"].verdict == "not decided"
    assert "it is a function" in found["late hook"].says  # and so has no layers


def test_a_model_that_takes_no_tensor_has_a_device(models: Path) -> None:
    [row] = composes(f"{models}:takes_a_number", only=("autocast",)).situations
    assert row.verdict == "agrees", row.says
    [row] = composes(f"{models}:frozen", only=("state_dict",)).situations
    assert row.verdict == "not decided" and "has a gradient of its own" in row.says


def test_bad_input_says_what_to_do(models: Path) -> None:
    with pytest.raises(InputError, match="there is no dropout: there are autocast"):
        composes(f"{models}:net", only=("dropout",))
    with pytest.raises(InputError, match="return a loss"):
        composes(f"{models}:nothing", only=("autocast",))


@pytest.mark.parametrize(
    ("verdicts", "verdict", "unmet"),
    [
        ({"late hook": "differs", "state_dict": "raises"}, "good", 0),
        ({"autocast": "raises", "late hook": "differs"}, "look", 0),
        ({"scheduler": "differs"}, "bad", 1),
        (dict.fromkeys(SITUATIONS, "not done"), "cannot tell", 1),
    ],
)
def test_a_checkup_of_training_judges_what_is_this_models_own(
    verdicts: dict[str, str], verdict: str, unmet: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = {**dict.fromkeys(SITUATIONS, "agrees"), **verdicts}
    situations = tuple(Situation(name, found, "") for name, found in every.items())
    found = Composition("m:make", situations)
    monkeypatch.setattr(composition, "composes", lambda *_, **__: found)
    news = [("", {"trains": True, "calls": 1})]
    monkeypatch.setattr(children, "parts", lambda *_: iter(news))
    looked = checkup("m:make", train=True, only=("composes",))
    assert looked["composes"].verdict == verdict
    assert len(looked.unmet("silently_different=0")) == unmet
    for name in (*found.named("differs"), *found.named("raises")):
        assert name in looked["composes"].says
    # One that took too long is not as good as one that agrees.
    ended = [dataclasses.replace(one, verdict="not done") for one in found.situations]
    found = Composition("m:make", (*situations[:2], *ended[2:]))
    monkeypatch.setattr(children, "parts", lambda *_: iter(news))
    looked = checkup("m:make", train=True, only=("composes",))
    assert looked["composes"].verdict != "good"
    assert "had to be ended" in looked["composes"].says
