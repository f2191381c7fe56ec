"""First calls in fresh processes: what is reported, and what is kept when one fails."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import psutil
import pytest

from tests.refresh import ROOT
from torch_checkup import start, warm
from torch_checkup.helpers import _torch
from torch_checkup.helpers.errors import InputError
from torch_checkup.start import (
    ColdStart,
    Lookup,
    Start,
    Way,
    cold_start,
    one_start,
)

MODEL = """
import torch

def make(): pass
def by_name():
    layers = torch.nn.Linear(8, 8), torch.nn.GELU()
    return torch.nn.Sequential(*layers), {"input": torch.ones(4, 8)}

def hangs():
    import subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"])
    time.sleep(99)
"""
PHASES = {"Dynamo": 0.5, "AOTAutograd": 0.5, "Inductor": 1.0, "build": 8.0}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def lookup(kind="FxGraphCache", hits=1, misses=0, bypasses=0, **parts):
    return Lookup(kind, hits, misses, bypasses, (), parts)


def started(seconds=1.0, **fields):
    scaled = {name: s * seconds / 10 for name, s in PHASES.items()}
    given = {
        "first_s": seconds,
        "phases": scaled,
        "lookups": (lookup(),),
        "agrees": True,
        **fields,
    }
    return Start(**given)


def found(**ways):
    each = tuple(Way(name, tuple(s), 7) for name, s in ways.items())
    return ColdStart("model:make", each, False, {})


# --- what is made of the numbers ------------------------------------------------------


def test_the_share_saved_is_of_the_median_and_loading_counts():
    result = found(
        empty=[started(10), started(12), started(50)],
        warm=[started(3)],
        artifacts=[started(2, load_s=1.0)],
    )
    assert result.saved("warm") == result.saved("artifacts") == pytest.approx(0.75)
    assert "12 s (10 s to 50 s)" in str(result)
    ended = Start(problem="it was ended")
    assert found(warm=[started(3), ended, ended])["warm"].seconds() == 3
    assert found(warm=[ended])["warm"].seconds() == 0
    with pytest.raises(KeyError, match="no way 'copied'"):
        result["copied"]


# --- which processes are started ------------------------------------------------------


def test_each_way_has_its_folder_and_turns_alternate(model, monkeypatch):
    seen = []

    def pretend(order, place, load=None, save=None, copy=None):
        there = {path.parent.name for path in place.rglob("*.txt")}
        seen.append((place.name, there, bool(load)))
        for name, what in (("cache", "12345"), ("temporary", "1234567")):
            (place / name).mkdir(parents=True, exist_ok=True)
            (place / name / "a.txt").write_text(what)
        if save:
            save.write_bytes(b"123")
        return started()

    monkeypatch.setattr(start, "one_start", pretend)
    result = cold_start(f"{model}:make", repeat=2)
    warm = ("filled", {"cache", "temporary"}, False)
    others = [("new", {"cache"}, False), ("new", set(), True)]
    rounds = [[(name, set(), False), warm, *others] for name in ("filled", "new")]
    assert seen == [*rounds[0], *rounds[1]]
    assert [(way.name, way.ships, len(way.starts)) for way in result.ways] == [
        *(("empty", 0, 2), ("warm", 0, 2), ("copied", 5, 2), ("artifacts", 3, 2))
    ]


def test_an_interrupt_keeps_what_is_done_and_a_failure_the_others(model, monkeypatch):
    answers = [started(), started(problem="failed"), KeyboardInterrupt()]

    def pretend(order, place, **__):
        assert (order["timeout"], order["memory"]) == (600.0, None)
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(start, "one_start", pretend)
    result = cold_start(f"{model}:make")
    assert [way.name for way in result.ways] == ["empty", "warm"]
    assert result.interrupted and "interrupted" in str(result)
    assert result["warm"].problem == "failed"
    answers += [KeyboardInterrupt(), started(problem="no weights")]
    with pytest.raises(KeyboardInterrupt):
        cold_start(f"{model}:make")
    with pytest.raises(InputError, match="make: no weights"):
        cold_start(f"{model}:make")


def test_a_copy_that_does_not_fit_is_told_and_the_others_are_kept(model, monkeypatch):
    def full(source, target):
        said = f"[Errno 28] No space left on device: '{source}' -> '{target}'"
        raise shutil.Error([(str(source), str(target), said)] * 9)

    def pretend(order, place, **__):
        (place / start.CACHE).mkdir(parents=True, exist_ok=True)
        return started()

    monkeypatch.setattr(start, "one_start", pretend)
    monkeypatch.setattr(start.shutil, "copytree", full)
    result = cold_start(f"{model}:make", ["empty", "copied", "artifacts"])
    problems = {way.name: way.problem for way in result.ways}
    said = problems.pop("copied")
    assert said.startswith("failed at: copy the cache: OSError: [Errno 28] No space")
    assert said.endswith("TMPDIR") and set(problems.values()) == {""}


# --- what torch kept of a process ----------------------------------------------------


def compiled(**seconds):
    """A record as torch keeps it: microseconds, and None of a phase that was not."""
    phases = {"dynamo": 0, "aot_autograd": 0, "inductor": 0, **seconds}
    return SimpleNamespace(
        **{
            f"{k}_cumulative_compile_time_us": v * 1e6 or None
            for k, v in phases.items()
        }
    )


@pytest.fixture
def kept(monkeypatch):
    """A function that puts its records, timers and counters in the place of torch's."""

    def put(history=(), timers=(), counters=()):
        none = {"aot_autograd": Counter(), "inductor": Counter()}
        monkeypatch.setattr(_torch, "compile_history", history)
        monkeypatch.setattr(_torch, "compile_seconds", dict(timers))
        monkeypatch.setattr(_torch, "counters", {**none, **dict(counters)})

    return put


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
    kept([compiled(dynamo=10, aot_autograd=8, inductor=lowered)], timers)
    found = start.phases()
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
    passed, asked = start.lookups(events)
    counts = [(one["hits"], one["misses"], one["bypasses"]) for one in (passed, asked)]
    assert counts == [(0, 1, 4), (2, 3, 0)]
    assert (passed["reasons"], passed["parts"]) == (("a hook",), {})
    key = {"gm": "cc", "config[a.b]": "bb"}
    assert (asked["reasons"], asked["parts"]) == ((), key)


# --- real processes ------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_leaves_no_process(model, tmp_path):
    code = f"from torch_checkup import cold_start; cold_start({model + ':hangs'!r})"
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=here, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 90
    family = []
    while time.monotonic() < deadline and len(family) < 2:  # the child, and its sleeper
        time.sleep(0.2)
        family = psutil.Process(parent.pid).children(recursive=True)
    assert len(family) == 2
    parent.send_signal(signal.SIGINT)
    parent.wait(30)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


def test_one_real_start_and_what_a_second_finds(model, tmp_path):
    cache, saved = tmp_path / "place", tmp_path / "saved"
    order = {"target": f"{model}:by_name", "options": {"backend": "inductor"}}
    order |= {"train": False, "timeout": 600.0, "memory": None}
    first = one_start(order, cache, save=saved)
    assert first.problem == "" and first.agrees is True
    assert set(first.phases) == set(start.PHASES)
    assert 0 < sum(first.phases.values()) <= first.first_s == first.wait_s
    assert first.found == "2 missed" and first.libraries
    again = one_start({**order, "train": True}, cache, load=saved)
    assert again.loaded is True and again.problem == ""
    assert "fx_kwargs[is_inference]" in again.missed(first)
    third = one_start(order, cache)
    assert third.found == "2 found" and third.missed(first) == ()
    with warm.Warm(order["target"], 300.0) as process:
        made = [one_start(order, cache, copy=process.copy) for _ in range(2)]
        late = one_start({**order, "timeout": 0.01}, cache, copy=process.copy)
    if sys.platform == "linux":
        assert process._fit
    for one in made:
        assert (one.problem, one.found, one.agrees) == ("", "2 found", True)
    assert "not done after 0.01 seconds" in late.problem


def test_a_copy_ends_as_a_process_does(tmp_path):
    path = tmp_path / "ends.py"
    path.write_text(
        "import os, signal\n"
        "def dies(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "def raises(): raise ValueError('no weights')\n"
        "def exits(): os._exit(3)\n"
    )
    said = {"dies": "SIGKILL", "raises": "no weights", "exits": "status 3"}
    with warm.Warm(f"{path}:dies", 300.0) as process:
        for name, words in said.items():
            order = {"target": f"{path}:{name}", "options": {}, "train": False}
            order |= {"timeout": 300.0, "memory": None}
            found = one_start(order, tmp_path / name, copy=process.copy)
            assert words in found.problem
