"""What to try next: counts come first, and what is not eager's answer helps nobody."""

import re
import sys
import textwrap
import time
from types import SimpleNamespace

import pytest
import torch

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


def test_what_gives_other_answers_or_hardly_helps_is_not_advised(patient, monkeypatch):
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(2.0))
    p = patient("differs")
    wrong = [*checkup_tries._options(p, p.compiled())]
    lines = [one.line for one in wrong]
    tried = 'mode="max-autotune-no-cudagraphs"', 'options={"freezing": True}'
    assert lines == [f"torch.compile(model, {options})" for options in tried]
    assert {one.effect for one in wrong} == {"⟨2.0 times⟩"}
    assert re.fullmatch("compiles for ⟨.*s⟩", wrong[0].costs)
    assert wrong[1].costs.endswith("s⟩, no gradients: under torch.no_grad()")
    results = {(one.kind, one.gain, one.agrees, one.helps) for one in wrong}
    assert results == {("each call", 2.0 - 0.01 - 1.05, False, False)}
    monkeypatch.setattr(checkup_tries, "_race", lambda *_: raced(1.03))
    monkeypatch.setattr(checkup_tries, "_agreement", lambda *_: (True, 1.0, None))
    hardly = [*checkup_tries._options(p, p.compiled())]
    assert hardly and not any(one.helps for one in hardly)
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
        for line in lines
    ]
    assert made == compiled and {"options": {"freezing": True}} in compiled


def test_what_fails_now_is_not_raced(patient, monkeypatch):
    def fails(*_):
        raise ValueError("no such size\nat all")

    monkeypatch.setattr(checkup_tries, "_agreement", fails)
    effect = "not raced, as it fails now: ValueError: no such size"
    told = Try("other options", "each call", effect, 0, None)
    assert [*checkup_tries._timed(patient("draws"))] == [told]


def test_a_call_that_fills_a_cache_is_raced_on_copies(patient):
    p = patient("fills")
    found = checkup_tries._race(p, p.fn, p.fn)
    assert len(found.rounds) >= 6 and not any("fail" in note for note in found.notes)


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
