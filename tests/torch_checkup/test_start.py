"""First calls in fresh processes: what is reported, and what is kept when one fails."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.refresh import ROOT
from torch_checkup import sandbox, start
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

def make():
    return torch.nn.Linear(8, 8), (torch.ones(4, 8),)

def by_name():
    return torch.nn.Linear(8, 8), {"input": torch.ones(4, 8)}

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
    assert result["empty"].span() == pytest.approx((10, 50))
    assert result["warm"].seconds("build") == pytest.approx(2.4)
    ended = Start(problem="it was ended")
    assert found(warm=[started(3), ended, ended])["warm"].seconds() == 3
    assert found(warm=[ended])["warm"].seconds() == 0
    with pytest.raises(KeyError, match="no way 'copied'"):
        result["copied"]


# --- which processes are started ------------------------------------------------------


def test_each_way_has_its_folder_and_turns_alternate(model, monkeypatch, tmp_path):
    seen = []

    def pretend(order, place, timeout, load=None, save=None, env=None, memory=None):
        there = sorted(p.parent.name + "/" + p.name for p in place.rglob("*.txt"))
        seen.append((place.name, there, bool(load)))
        for name, what in (("cache", "12345"), ("temporary", "1234567")):
            (place / name).mkdir(parents=True, exist_ok=True)
            (place / name / "a.txt").write_text(what)
        if save:
            save.write_bytes(b"123")
        return started()

    monkeypatch.setattr(start, "one_start", pretend)
    result = cold_start(f"{model}:make", start.WAYS, repeat=2, folder=tmp_path)
    cache, both = ["cache/a.txt"], ["cache/a.txt", "temporary/a.txt"]
    assert seen == [
        ("filled", [], False),
        ("filled", both, False),
        ("new", cache, False),
        ("new", both, False),
        ("new", [], True),
        ("new", [], False),
        ("filled", both, False),
        ("new", cache, False),
        ("new", both, False),
        ("new", [], True),
    ]
    assert {way.name: way.ships for way in result.ways} == {
        "empty": 0, "warm": 0, "copied": 5, "image": 12, "artifacts": 3,
    }  # fmt: skip
    assert all(len(way.starts) == 2 for way in result.ways)
    assert [p.name for p in tmp_path.iterdir()] == ["model.py"]  # folders are removed


def test_a_start_has_its_folders_and_limits_and_counts_its_libraries(
    model, monkeypatch, tmp_path
):
    place, asked = tmp_path / "place", {}
    (place / "cache" / "deep").mkdir(parents=True)
    (place / "cache" / "old.so").touch()

    def reports(function, order, timeout, memory, env, folder):
        asked.update(env, function=function, limits=(timeout, memory), folder=folder)
        assert order["train"] is False and order["save"] == str(tmp_path / "saved")
        for name in ("one.so", "deep/two.so", "deep/two.cpp"):
            (place / "cache" / name).touch()
        yield from ({"stage": "load the artifacts", "load_s": 1.0}, {"first_s": 2.0})

    monkeypatch.setattr(sandbox, "reports", reports)
    order = {"target": f"{model}:make", "options": {"dynamic": True}}
    more = {"env": {"TMP": "mine", "A": "b"}, "memory": 7, "save": tmp_path / "saved"}
    start = one_start(order, place, 9.0, **more)
    assert start == Start(load_s=1.0, first_s=2.0, libraries=2)
    temporary = str(place / "temporary")
    env = {"TMPDIR": temporary, "TEMP": temporary, "TMP": "mine", "A": "b"}
    env["TORCHINDUCTOR_CACHE_DIR"] = str(place / "cache")
    how = {"function": ".start:first_call", "limits": (9.0, 7), "folder": place}
    assert asked == {**env, **how}
    assert Path(temporary).is_dir()


def test_an_interrupt_keeps_what_is_done_and_a_failure_the_others(model, monkeypatch):
    matches = [started(), started(problem="failed"), KeyboardInterrupt()]

    def pretend(order, place, timeout, env, memory, **__):
        assert (timeout, env, memory) == (600.0, None, None)
        answer = matches.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(start, "one_start", pretend)
    result = cold_start(f"{model}:make")
    assert [way.name for way in result.ways] == ["empty", "warm"]
    assert result.interrupted and "interrupted" in str(result)
    assert result["warm"].problem == "failed"
    matches += [KeyboardInterrupt(), started(problem="no weights")]
    with pytest.raises(KeyboardInterrupt):
        cold_start(f"{model}:make")
    with pytest.raises(InputError, match="make: no weights"):
        cold_start(f"{model}:make")


def test_a_copy_that_does_not_fit_is_told_and_the_others_are_kept(model, monkeypatch):
    def full(source, target):
        said = f"[Errno 28] No space left on device: '{source}' -> '{target}'"
        raise shutil.Error([(str(source), str(target), said)] * 9)

    def pretend(order, place, *_, **__):
        (place / start.CACHE).mkdir(parents=True, exist_ok=True)
        return started()

    monkeypatch.setattr(start, "one_start", pretend)
    monkeypatch.setattr(start.shutil, "copytree", full)
    result = cold_start(f"{model}:make", ["empty", "copied", "artifacts"])
    assert [way.problem for way in result.ways if way.name != "copied"] == ["", ""]
    assert result["copied"].problem == (
        "failed at: copy the cache: OSError: [Errno 28] No space left on device. "
        "The disk is full: free some, or name another with folder="
    )


# --- what torch kept of a process ----------------------------------------------------


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
    kept([compiled(10, 8, lowered)], timers)
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
    first, second = start.lookups(events)
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
    first = one_start(order, cache, save=saved)
    assert first.problem == "" and first.agrees is True
    assert first.first_s > 0
    assert set(first.phases) == set(start.PHASES)
    assert 0 < sum(first.phases.values()) <= first.first_s == first.wait_s
    assert first.found == "2 missed"
    again = one_start({**order, "train": True}, cache, load=saved)
    assert again.loaded is True and again.problem == ""
    assert "fx_kwargs[is_inference]" in again.missed(first)
    third = one_start(order, cache)
    assert third.found == "2 found" and third.missed(first) == ()


# --- what cannot work ----------------------------------------------------------------
