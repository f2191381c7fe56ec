"""What torch kept of compiles is added up once, and each cache has its own counts."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from torch_checkup import records


def compiled(dynamo=0.0, aot=0.0, inductor=0.0, waited=0.0):
    """A record as torch keeps it: microseconds, and None of a phase that was not."""
    spent = {"dynamo": dynamo, "aot_autograd": aot, "inductor": inductor}
    fields = {
        f"{k}_cumulative_compile_time_us": v * 1e6 or None for k, v in spent.items()
    }
    return SimpleNamespace(**fields, triton_compile_time_us=waited * 1e6 or None)


@pytest.fixture
def kept(monkeypatch):
    """A function that puts its records, timers and counters in the place of torch's."""

    def put(history=(), timers=(), counters=()):
        instead = SimpleNamespace(
            compile_history=history,
            compile_seconds=dict(timers),
            counters={
                "aot_autograd": Counter(),
                "inductor": Counter(),
                **dict(counters),
            },
        )
        monkeypatch.setattr(records, "_torch", instead)

    return put


def test_each_phase_is_told_without_what_lies_inside(kept):
    two = [compiled(7, 5, 3, waited=1), compiled(1.5, 0.5, 0.25)]
    kept(history=[compiled(100, 100, 100)])
    assert records.whole("dynamo", two) == 8.5
    assert records.phases(two) == {
        "Dynamo": 3.0,
        "AOTAutograd": 2.25,
        "Inductor": 2.25,
        "build": 1.0,
    }


def test_nothing_is_less_than_none(kept):
    """Threads may wait longer than the phase in which they are counted took."""
    kept()
    odd = [compiled(1, 2, 3, waited=9)]
    assert records.phases(odd) == {
        "Dynamo": 0.0,
        "AOTAutograd": 0.0,
        "Inductor": 0.0,
        "build": 2.0,
    }
    assert set(records.phases([]).values()) == {0.0}


LOAD, FILE = "AOTAutogradCache.inductor_load", "PyCodeCache.load_by_key_path"


@pytest.mark.parametrize(
    ("lowered", "timers", "inductor"),
    [
        (0, {LOAD: [0.5, 0.25], FILE: [9.0]}, 0.75),  # both caches found it
        (0, {FILE: [0.25, 0.25]}, 0.5),  # Inductor's alone
        (2, {FILE: [9.0]}, 2.0),  # it was lowered, and the file is a part of that
        (2, {LOAD: [1.0], "compile_file": [0.5, 1.0]}, 1.5),
    ],
)
def test_loading_what_was_found_is_inductors_of_this_process(
    lowered, timers, inductor, kept
):
    kept([compiled(10, 8, lowered)], timers)
    found = records.phases()
    assert found["Inductor"] == inductor
    assert found["build"] == sum(timers.get("compile_file", ()))
    assert sum(found.values()) == 10


def event(kind, payload):
    return SimpleNamespace(kind=kind, payload=payload)


def test_each_cache_has_its_counts_its_reasons_and_its_newest_key(kept):
    inductor = Counter(fxgraph_cache_hit=2, fxgraph_cache_miss=3, autograd_cache_hit=9)
    autograd = Counter(autograd_cache_bypass=4, autograd_cache_miss=1)
    kept(counters={"inductor": inductor, "aot_autograd": autograd})
    why = {"cache_bypass_reason": "a hook"}
    key = {"components": ["[aa] gm: f(x): y", "[bb] config[a.b]: {'c': 1}"]}
    newer = {"components": ["[cc] gm: f(x): z"]}
    events = [
        event("aotautograd_cache_bypass", json.dumps(why)),
        event("aotautograd_cache_bypass", json.dumps(why)),
        event("fx_graph_cache_miss", json.dumps(key)),
        event("fx_graph_cache_hit", json.dumps(newer)),
        event("fx_graph_cache_miss", "no JSON"),
        event("another", json.dumps({"cache_bypass_reason": "not of a cache"})),
    ]
    first, second = records.lookups(events)
    assert first == {
        "kind": "AOTAutogradCache",
        "hits": 0,
        "misses": 1,
        "bypasses": 4,
        "reasons": ("a hook",),
        "parts": {},
    }
    assert second == {
        "kind": "FxGraphCache",
        "hits": 2,
        "misses": 3,
        "bypasses": 0,
        "reasons": (),
        "parts": {"gm": "cc", "config[a.b]": "bb"},
    }


def test_an_answer_is_held_against_eager_whatever_is_compiled_inside():
    x = torch.linspace(-1, 1, 5)
    wrong = torch.compile(lambda x: x + 1, backend=lambda *_: lambda x: (x + 2,))
    assert records.agrees(lambda: wrong(x), lambda: x + 1) is True
    assert records.agrees(lambda: wrong(x), lambda: wrong(x)) is False
    assert records.agrees(lambda: None, lambda: None) is None
