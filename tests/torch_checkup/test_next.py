"""What to try next: what is not eager's answer helps nobody."""

import re
from types import SimpleNamespace
from unittest import mock

import pytest

from tests.torch_checkup.conftest import written
from torch_checkup import next as next_part
from torch_checkup.helpers.errors import CompiledRaises
from torch_checkup.model import Model
from torch_checkup.next import Outcome, all_tried

MODELS = """
from torch import nn

class Sizes(nn.Module):
    def forward(self, batch, scale):
        return torch.relu(batch["x"]) * batch["mask"][..., None] * scale

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(8, 8), nn.Dropout(0.3)
    def forward(self, x):
        return x + self.drop(self.layer(x).relu())

class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(8, 64) for _ in range(2))
        self.layers = nn.ModuleList(Block() for _ in range(3))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

class Differs(nn.Module):
    def forward(self, x):
        return x * 2 if torch.compiler.is_compiling() else x * 3

class Fills(nn.Module):
    def forward(self, x, cache):
        end = int(cache["end"])
        if end + 4 > len(cache["rows"]):
            raise IndexError("the cache is full")
        cache["rows"][end:end + 4] = x.sin()
        cache["end"] += 4
        return cache["rows"].sum()

class Counts(nn.Module):
    calls = 0
    def forward(self, x):
        self.calls += 1
        return x * self.calls

def counts(): return Counts(), [(torch.ones(2),)] * 2
def fills():
    return Fills(), (torch.rand(4), {"rows": torch.zeros(8), "end": torch.tensor(0)})
def draws(): return Blocks(), (torch.rand(4, 8),)
def differs(): return Differs(), (torch.rand(4),)
def sizes():
    batches = [{"x": torch.rand(4, n, 8), "mask": torch.ones(4, n)} for n in (5, 7, 9)]
    return Sizes(), [(batch, torch.ones(1)) for batch in batches]
"""


@pytest.fixture
def model(tmp_path):
    order = {"train": False, "budget": 0.2, "timeout": 300.0, "gpu": "h100"}
    return lambda name: Model({"target": written(tmp_path, MODELS, name), **order})


def raced(speedup):
    return SimpleNamespace(
        interval=(speedup - 0.01, speedup + 0.01),
        cold_start_s=1.0,
        ratio=lambda: f"{speedup} times",
    )


def test_blocks_are_compiled_one_by_one(model, monkeypatch):
    p = model("draws")
    monkeypatch.setattr(next_part, "_race", lambda *_: raced(0.8))
    monkeypatch.setattr(p, "judged", lambda *_: SimpleNamespace(matches=True))
    first_s = iter((5.0, 10.0))
    monkeypatch.setattr(next_part, "_called", lambda *_, **__: (next(first_s), None))
    (one,) = next_part._by_blocks(p, p.compiled())
    line, effect = "for block in model.layers: block.compile()", "10 s, then 5 s"
    costs = "each call ⟨0.8 times⟩"
    assert one == Outcome(line, f"⟨first call {effect}⟩", 2 - 1.3, True, costs)


def test_what_gives_other_answers_or_hardly_helps_is_not_advised(model, monkeypatch):
    def light(m, usual=next_part._compiling, mode=None, **how):
        return usual(m, backend="eager", **how)

    monkeypatch.setattr(next_part, "_compiling", light)
    monkeypatch.setattr(next_part, "_race", lambda *_: raced(2.0))
    p = model("differs")
    wrong = [*next_part._modes(p, None)]
    mode = 'torch.compile(model, mode="max-autotune-no-cudagraphs")'
    assert [one.line for one in wrong] == [mode, next_part._FREEZING]
    assert {(one.effect, one.agrees, one.helps) for one in wrong} == {
        ("⟨2.0 times⟩", False, False)
    }
    assert wrong[0].costs == "1 version"  # nobody waits for what is not advised
    assert wrong[1].costs == "1 version, no gradients: under torch.no_grad()"
    helps, _ = next_part._modes(model("sizes"), None)
    assert helps.helps and re.fullmatch("compiles for ⟨.*s⟩", helps.costs)
    monkeypatch.setattr(next_part, "_race", lambda *_: raced(1.03))
    hardly = [*next_part._modes(model("sizes"), None)]
    assert hardly and not any(one.helps for one in hardly)
    p = model("differs")
    p.order["train"] = p.train = True  # where nothing is left to choose
    assert [*next_part._modes(p, None)] == []


def test_what_is_tried_depends_on_the_device_and_on_what_runs_now(model, monkeypatch):
    p = model("differs")
    monkeypatch.setattr(next_part, "_attempt", lambda work, line, *more: line)
    on_a_gpu = lambda _: [SimpleNamespace(is_cuda=True)]  # noqa: E731
    monkeypatch.setattr(next_part, "tensors", on_a_gpu)
    modes = [
        f'torch.compile(model, mode="{m}")' for m in ("reduce-overhead", "max-autotune")
    ]
    assert [*next_part._modes(p, None)] == [*modes, next_part._FREEZING]
    monkeypatch.setattr(next_part, "_called", mock.Mock(side_effect=ValueError("no")))
    with pytest.raises(CompiledRaises, match="as it fails now: ValueError: no"):
        all_tried(p)


def test_what_counts_its_calls_agrees_however_often_it_was_timed(model):
    p = model("counts")
    _, compiled = next_part._called(p, next_part._compiling(p, backend="eager"))
    assert p.judged(compiled).matches is True


def test_a_call_that_fills_a_cache_is_raced_on_copies(model):
    p = model("fills")
    found = next_part._race(p, p.fn, p.fn)
    assert len(found.rounds) >= 6 and not any("fail" in note for note in found.notes)
    assert found.names == ("now", "then") and found.matches is None


FULL = """
class Full(torch.nn.Module):
    end = 0
    def forward(self, x):
        if self.end == 2:
            raise IndexError("the cache is full")
        self.end += 1
        return x.sin()
def make(): return Full(), [(torch.rand(4),)] * {}
"""


@pytest.mark.parametrize("calls", [1, 3])
def test_a_model_that_takes_two_calls_is_not_raced_and_says_so(calls, looked_at):
    for found in looked_at(FULL.format(calls), "next", "speed"):
        why = "then raises IndexError: the cache is full: each run needs a fresh model"
        assert found["says"] == f"the model takes 2 calls, {why}"
        assert (found["verdict"], len(found["advice"])) == ("cannot tell", 1)


def test_what_helps_comes_first_and_a_failure_is_told(model, monkeypatch):
    fails = mock.Mock(side_effect=RuntimeError("no such option"))

    def found(*_):
        return [
            next_part._attempt(fails, "bad"),
            Outcome("fast", "", 9.0, True),
            Outcome("wrong", "", 5, False),
        ]

    monkeypatch.setattr(next_part, "_timed", found)
    p = model("differs")
    assert [one.line for one in all_tried(p)] == ["fast", "wrong", "bad"]
    p.order["timeout"] = 0.0
    failed, rest = all_tried(p)
    assert failed.effect == "fails: RuntimeError: no such option"
    assert not failed.helps and not rest.decided


def test_what_helps_is_advised_with_what_it_costs(monkeypatch):
    mends = Outcome("a", "faster", 1, True)
    costs = Outcome("b", "faster", 0.5, None, "compiles for 2 s")
    wrong = Outcome("c", "much faster", 9.0, False)
    monkeypatch.setattr(next_part, "all_tried", lambda _: [mends, costs, wrong])
    part = next_part.part(None)
    assert (part.verdict, part.says) == ("look", "a: faster")
    assert part.advice == (part.says, "b: faster (compiles for 2 s)")
    answers = [row[2] for row in part.evidence[0].rows]
    assert answers == ["agree", "not known", "DIFFER"]
    monkeypatch.setattr(next_part, "all_tried", lambda _: [wrong])
    part = next_part.part(None)
    nothing = "no option tried helps"
    assert (part.verdict, part.says, part.advice) == ("good", nothing, ())
    perhaps = Outcome("d", "cannot tell", -0.8, True, decided=False)
    monkeypatch.setattr(next_part, "all_tried", lambda _: [wrong, perhaps])
    assert next_part.part(None).verdict == "cannot tell"
