"""What to try next: counts come first, and what is not eager's answer helps nobody."""

import re
import sys
import textwrap
import time
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from torch._inductor import freezing

from torch_checkup import tries as checkup_tries
from torch_checkup.patient import Patient
from torch_checkup.tries import Try, tried

MODELS = """
import logging
import torch
from torch import nn

log = logging.getLogger(__name__)

class Stops(nn.Module):
    def forward(self, x):
        x = x / x.abs().max().item()
        print("half done")
        x = x.cos()
        log.info("done")
        return x.sin()

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

class Chooses(nn.Module):
    def forward(self, x):
        return x.sin() if len(x) == 5 else x.cos()

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

def fills():
    return Fills(), (torch.rand(4), {"rows": torch.zeros(8), "end": torch.tensor(0)})
def chooses(): return Chooses(), [(torch.rand(n, n),) for n in (5, 7, 9)]
def stops(): return Stops(), [(torch.rand(4),), (torch.rand(4),)]
def draws(): return Blocks(), (torch.rand(4, 8),)
def layer(): return nn.Linear(8, 8), (torch.rand(4, 8),)
def differs(): return Differs(), (torch.rand(4),)
def sizes():
    batches = [{"x": torch.rand(4, n, 8), "mask": torch.ones(4, n)} for n in (5, 7, 9)]
    return Sizes(), [(batch, torch.ones(1)) for batch in batches]
"""


@pytest.fixture
def patient(tmp_path):
    path = tmp_path / "models_to_try.py"
    path.write_text(textwrap.dedent(MODELS))
    order = {"train": False, "budget": 0.2, "timeout": 300.0, "gpu": "h100"}
    yield lambda name: Patient({"target": f"{path}:{name}", **order})
    sys.modules.pop("models_to_try", None)


def raced(speedup):
    return SimpleNamespace(
        interval=(speedup - 0.01, speedup + 0.01),
        cold_start_s=1.0,
        ratio=lambda: f"{speedup} times",
    )


def test_settings_that_mend_breaks_are_found_alone_and_together(patient, monkeypatch):
    p = patient("stops")
    monkeypatch.setattr(  # the first of two calls stands for both
        checkup_tries, "_agreement", lambda _, __, calls: (len(calls) == 1, 1.0, None)
    )
    names = (
        "capture_scalar_outputs",
        "reorderable_logging_functions",
        "ignore_logging_functions",
    )
    values = (
        "= True",
        "|= {print, warnings.warn}",
        "|= {logging.Logger.info, logging.Logger.warning}",
    )
    costs = "", "they print when the graph is done", "they log nothing from then on"
    then = "3 breaks in 4 graphs, then 2 in 3 graphs"
    each = [
        Try(f"torch._dynamo.config.{name} {value}", "breaks", then, 1, True, cost)
        for name, value, cost in zip(names, values, costs, strict=True)
    ]
    line, cost = f"all at once: {'; '.join(t.line for t in each)}", "; ".join(costs[1:])
    effect = "3 breaks in 4 graphs, then 0 in 1 graph"
    together = Try(line, "breaks", effect, 3, True, cost)
    assert [*checkup_tries._mended_breaks(p)] == [*each, together]


def test_a_size_that_varies_is_marked_by_its_name(patient):
    (marked,) = checkup_tries._dynamic_sizes(patient("sizes"))
    mark = "torch._dynamo.mark_dynamic(batch['{}'], 1)"
    names = "; ".join(mark.format(name) for name in ("x", "mask"))
    assert marked.line == f"before the first call: {names}"
    assert (marked.effect, marked.helps) == ("2 versions, then 1", True)
    assert re.fullmatch("compiles for ⟨.*s⟩", marked.costs) and marked.gain == 1
    assert not [*checkup_tries._dynamic_sizes(patient("stops"))]


def test_where_a_mark_promises_too_much_all_sizes_are_asked_for(patient):
    marked, dynamic = checkup_tries._dynamic_sizes(patient("chooses"))
    assert marked.line == "before the first call: torch._dynamo.mark_dynamic(x, [0, 1])"
    broken = "a marked size does not keep its promise: You marked L"
    assert marked.effect.startswith(f"fails: CompiledRaises: {broken}")
    assert (marked.gain, marked.agrees, marked.helps) == (0, None, False)
    assert dynamic.line == "torch.compile(model, dynamic=True)"
    assert (dynamic.effect, dynamic.gain) == ("2 versions, then 2", 0)


def test_what_draws_numbers_is_judged_with_the_options_that_are_tried(patient):
    def doubles(graph, _):
        return lambda *inputs: [2 * tensor for tensor in graph(*inputs)]

    p = patient("draws")
    for backend, agrees in (("eager", True), (doubles, False)):
        compiling = checkup_tries._compiling(p, backend=backend)
        assert checkup_tries._agreement(p, compiling, p.calls)[0] is agrees


@pytest.mark.parametrize(
    ("answers", "draws", "agrees"),
    [
        ([True, True], False, True),
        ([True, None], False, None),
        ([None, False], False, False),
        ([True, False], True, True),  # the first call alone is judged
    ],
)
def test_all_answers_have_to_be_eagers(answers, draws, agrees):
    found = iter(SimpleNamespace(matches=one) for one in answers)
    p = SimpleNamespace(
        fn=torch.sin, run=lambda fn: fn, draws=draws, answers=lambda *_: next(found)
    )
    calls = [((torch.ones(2),), {})] * 2
    agreed, seconds, code = checkup_tries._agreement(p, lambda: torch.sin, calls)
    assert (agreed, code) == (agrees, torch.sin) and seconds > 0


def test_blocks_are_compiled_one_by_one(patient, monkeypatch):
    p = patient("draws")
    seconds = iter([9.0, 10.0, 11.0])
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(0.8))
    several = lambda *_: ([*seconds], [3.0, 5.0, 5.0])  # noqa: E731
    monkeypatch.setattr(checkup_tries, "_first_calls", several)
    (one,) = checkup_tries._by_blocks(p, p.compiled())
    assert one == Try(
        "for block in model.layers: block.compile()",
        "first call",
        "⟨first call faster: 10 s, then 5 s; 2 to 3 times as fast in 3 rounds⟩",
        2 - 1.05,
        True,
        "each call ⟨0.8 times⟩",
    )


def test_the_blocks_that_have_most_weights_are_named():
    def blocks(*sizes):
        return torch.nn.Sequential(*map(block, sizes))

    def block(size):
        return torch.nn.Sequential(torch.nn.Linear(size, size))

    leaves = torch.nn.ModuleList(torch.nn.Linear(9, 9) for _ in range(2))
    unlike = torch.nn.ModuleList([block(9), torch.nn.Bilinear(9, 9, 9)])
    lists = {"few": blocks(2, 2, 2), "most": blocks(4, 4)}
    others = {"one": blocks(9), "leaves": leaves, "unlike": unlike}
    model = torch.nn.ModuleDict({**lists, **others})
    assert checkup_tries._blocks(model) == "most"
    for none in (torch.nn.ModuleDict(others), blocks(4, 4), None):
        assert checkup_tries._blocks(none) == ""


def test_first_calls_find_nothing_compiled(patient, monkeypatch):
    """By a clock that counts the graphs that Inductor has to compile."""
    counters = torch._dynamo.utils.counters
    misses = lambda: counters["inductor"]["fxgraph_cache_miss"]  # noqa: E731
    clock = SimpleNamespace(monotonic=time.monotonic, perf_counter=misses)
    monkeypatch.setattr(checkup_tries, "time", clock)
    monkeypatch.setattr(checkup_tries, "_PATIENCE", 0.0)
    p = patient("differs")
    whole, parts = checkup_tries._first_calls(p, p.made_again())
    assert (whole, parts) == ([1, 1], [0, 0])  # for that model is not compiled at all


@pytest.mark.parametrize(("patience", "rounds"), [(999.0, 3), (0.0, 2)])
def test_of_slow_first_calls_two_rounds_must_do(patience, rounds, monkeypatch):
    monkeypatch.setattr(checkup_tries, "_PATIENCE", patience)
    monkeypatch.setattr(checkup_tries, "compile_apart", lambda fn: fn)
    call = (torch.ones(2),), {}
    p = SimpleNamespace(fn=torch.sin, run=lambda fn: fn, calls=[call])
    found = checkup_tries._first_calls(p, torch.cos)
    assert [len(side) for side in found] == [rounds, rounds]


def test_what_gives_other_answers_or_hardly_helps_is_not_advised(patient, monkeypatch):
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(2.0))
    p = patient("differs")
    wrong = [*checkup_tries._options(p, p.compiled())]
    lines = [one.line for one in wrong]
    mode = 'torch.compile(model, mode="max-autotune-no-cudagraphs")'
    assert lines == [mode, checkup_tries._FREEZING]
    assert {one.effect for one in wrong} == {"⟨2.0 times⟩"}
    assert re.fullmatch("compiles for ⟨.*s⟩", wrong[0].costs)
    assert wrong[1].costs.endswith("s⟩, no gradients: under torch.no_grad()")
    results = {(one.kind, one.gain, one.agrees, one.helps) for one in wrong}
    assert results == {("each call", 2.0 - 0.01 - 1.05, False, False)}
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(1.03))
    monkeypatch.setattr(checkup_tries, "_agreement", lambda *_: (True, 1.0, None))
    hardly = [*checkup_tries._options(p, p.compiled())]
    assert hardly and not any(one.helps for one in hardly)
    p = patient("differs")
    p.order["train"] = p.train = True  # where nothing is left to choose
    assert [*checkup_tries._options(p, p.compiled())] == []
    of_sizes = [*checkup_tries._options(patient("sizes"), p.compiled())]
    static = next(
        one for one in of_sizes if one.line.endswith("(model, dynamic=False)")
    )
    assert static.costs == "compiles for ⟨1 s⟩, 3 versions"


def test_what_is_raced_is_compiled_with_the_options_of_its_line(patient, monkeypatch):
    compiled = []
    monkeypatch.setattr(
        checkup_tries, "_compiling", lambda _, **how: compiled.append(how)
    )
    monkeypatch.setattr(checkup_tries, "_agreement", lambda *_: (True, 1.0, None))
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(2.0))
    p = patient("draws")
    lines = [one.line for one in checkup_tries._options(p, p.fn)]
    made = [
        eval(line, {"model": p, "torch": SimpleNamespace(compile=lambda _, **how: how)})
        for line in lines[:-1]
    ]
    assert [*made, {}] == compiled and lines[-1] == checkup_tries._FREEZING


def test_what_is_raced_as_frozen_is_frozen(patient, monkeypatch):
    frozen = mock.Mock(wraps=freezing.freeze)
    monkeypatch.setattr(freezing, "freeze", frozen)
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(2.0))
    p = patient("layer")
    with torch.no_grad():
        *_, last = checkup_tries._options(p, p.fn)
    assert (last.line, last.agrees) == (checkup_tries._FREEZING, True)
    assert frozen.call_count == 1
    assert not torch._inductor.config.freezing


def test_what_fails_now_is_not_raced(patient, monkeypatch):
    def fails(*_):
        raise ValueError("no such size\nat all")

    monkeypatch.setattr(checkup_tries, "_agreement", fails)
    effect = "not raced, as it fails now: ValueError: no such size"
    told = Try("other options", "each call", effect, 0, None)
    assert [*checkup_tries._timed(patient("draws"))] == [told]


def test_other_options_and_blocks_are_raced_against_what_is_compiled_now(monkeypatch):
    raced_with = lambda p, now: iter([(p, now)])  # noqa: E731
    monkeypatch.setattr(checkup_tries, "_agreement", lambda *_: (True, 1.0, "now"))
    monkeypatch.setattr(checkup_tries, "_options", raced_with)
    monkeypatch.setattr(checkup_tries, "_by_blocks", raced_with)
    p = SimpleNamespace(calls=[])
    assert [*checkup_tries._timed(p)] == [(p, "now")] * 2


def test_on_a_gpu_the_modes_for_it_are_raced(patient, monkeypatch):
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(2.0))
    monkeypatch.setattr(checkup_tries, "_agreement", lambda *_: (True, 1.0, None))
    there = [SimpleNamespace(is_cuda=False), SimpleNamespace(is_cuda=True)]
    monkeypatch.setattr(checkup_tries, "tensors", lambda _: there)
    lines = [one.line for one in checkup_tries._options(patient("differs"), None)]
    modes = 'mode="reduce-overhead"', 'mode="max-autotune"'
    assert lines[:2] == [f"torch.compile(model, {mode})" for mode in modes]


def test_a_call_that_fills_a_cache_is_raced_on_copies(patient, monkeypatch):
    budgets = []

    def race(*sides, budget, **how):
        budgets.append(budget)
        return checkup_race(*sides, budget=budget, **how)

    checkup_race = checkup_tries.race
    monkeypatch.setattr(checkup_tries, "race", race)
    p = patient("fills")
    found = checkup_tries._race(p, p.fn, p.fn)
    assert len(found.rounds) >= 6 and not any("fail" in note for note in found.notes)
    assert found.names == ("now", "then") and found.matches is None
    assert budgets == [0.2 / 4]


def test_counts_come_before_seconds_and_a_failure_is_told(patient, monkeypatch):
    def fails(line):
        raise RuntimeError("no such option")

    def found(*_):
        return [
            *checkup_tries._attempt("breaks", fails, "bad"),
            Try("fast", "each call", "", 9.0, True),
            Try("wrong", "breaks", "", 5, False),
            Try("mended", "breaks", "", 1, None),
            Try("marked", "versions", "", 3, True),
        ]

    monkeypatch.setattr(checkup_tries, "_timed", found)
    p = patient("differs")
    order = [one.line for one in tried(p)]
    assert order == ["mended", "marked", "fast", "wrong", "bad"]
    p.order["timeout"] = 0.0
    failed, rest = tried(p)
    effect = "fails: RuntimeError: no such option"
    assert failed == Try("bad", "breaks", effect, 0, None)
    assert rest == Try("the rest", "each call", "not tried: timeout=", 0, None)


def test_what_helps_is_advised_with_what_it_costs(monkeypatch):
    mends = Try("a", "breaks", "1 break, then 0", 1, True)
    costs = Try("b", "each call", "faster", 0.5, None, "compiles for 2 s")
    wrong = Try("c", "each call", "much faster", 9.0, False)
    monkeypatch.setattr(checkup_tries, "tried", lambda _: [mends, costs, wrong])
    part = checkup_tries.next_steps(None)
    assert (part.name, part.verdict) == ("next", "look")
    assert part.says == "a: 1 break, then 0"
    assert part.advice == (part.says, "b: faster (compiles for 2 s)")
    heads, _, *rows = [re.split("  +", row) for row in part.evidence[0].splitlines()]
    assert heads == ["tried", "effect", "answers", "costs"]
    assert rows == [
        ["a", "1 break, then 0", "agree"],
        ["b", "faster", "not decided", "compiles for 2 s"],
        ["c", "much faster", "DIFFER"],
    ]
    monkeypatch.setattr(checkup_tries, "tried", lambda _: [wrong])
    part = checkup_tries.next_steps(None)
    nothing = "no setting tried here helps"
    assert (part.verdict, part.says, part.advice) == ("good", nothing, ())
