"""First calls in fresh processes: what is reported, and what is kept when one fails."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import psutil
import pytest

from tests.refresh import ROOT
from torch_checkup import start
from torch_checkup.helpers import _torch
from torch_checkup.helpers.errors import InputError
from torch_checkup.start import ColdStart, Lookup, Start, Way, cold_start

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


def lookup(hits=1, misses=0):
    return Lookup("FxGraphCache", hits, misses, 0, ())


def started(seconds=1.0, **fields):
    scaled = {name: s * seconds / 10 for name, s in PHASES.items()}
    given = {"first_s": seconds, "phases": scaled, "lookups": (lookup(),)}
    return Start(**given | {"agrees": True} | fields)


def found(**ways):
    each = tuple(Way(name, tuple(s), 7) for name, s in ways.items())
    return ColdStart("model:make", each, False)


# --- what is made of the numbers ------------------------------------------------------


def test_the_share_saved_is_of_the_median_and_loading_counts():
    result = found(
        empty=[started(10), started(12), started(50)],
        warm=[started(3)],
        artifacts=[started(2, load_s=1.0)],
    )
    assert result.saved("warm") == result.saved("artifacts") == pytest.approx(0.75)
    assert "12 s (10 s to 50 s)" in str(result) and "(3 s" not in str(result)
    assert result["empty"].seconds("build") == pytest.approx(9.6)
    heads = "way caches answers built ships wait of which"
    assert str(result).split()[:8] == heads.split()
    assert "11 s (10 s to 12 s)" in str(found(empty=[started(10), started(12)]))
    ended = Start(problem="it was ended")
    assert found(warm=[started(3), ended, ended])["warm"].seconds() == 3
    assert found(warm=[ended])["warm"].seconds() == 0
    with pytest.raises(KeyError, match="no 'copied'"):
        result["copied"]


GOOD = {"empty": [started(10)], "warm": [started(2.3456)], "copied": [started(2)]}
SAID = "⟨10 s⟩ until the first answer, ⟨2.35 s⟩ with a warm cache"
PASSED = Lookup("AOTAutogradCache", 0, 0, 1, ("a FunctionCtx\n in it",))


@pytest.mark.parametrize(
    ("ways", "verdict", "says", "counts", "advice"),
    [
        ({}, "good", SAID, (0.765, 1), "'copied' ships ⟨7 B⟩ and saves ⟨80%⟩ of t"),
        ({"warm": [started(9)]}, "good", "", (0.1, 1), "'copied' ships ⟨7 B⟩ and "),
        ({"warm": [started(9)], "copied": [started(8)]}, "good", "", (0.1, 1), ""),
        (
            {"warm": [started(2.3456, lookups=(lookup(0, 2),))]},
            *("bad", f"a second process finds nothing in the cache: {SAID}"),
            *((0.765, 0), f"look why: {start._LOOK_WHY}"),
        ),
        (
            {"warm": [started(10, lookups=(replace(PASSED, reasons=("a", "b")),))]},
            *("bad", "a second process finds nothing", (0.0, 0), "look why: a; b"),
        ),
        (
            {"warm": [started(2.3456, lookups=(lookup(), PASSED))]},
            *("look", f"a second process passes AOTAutogradCache by: {SAID}"),
            *((0.765, 1), f"{PASSED.kind} is not asked, so its part is done in each "),
        ),
        (
            {"warm": [started(problem="it was ended")]},
            *("look", "⟨10 s⟩ until the first answer", (None, None), ""),
        ),
    ],
)
def test_the_verdict_is_on_what_a_second_start_found(
    ways, verdict, says, counts, advice
):
    part = start.judged(found(**GOOD | ways))
    assert (part.name, part.verdict) == ("start", verdict)
    assert part.says.startswith(says), part.says
    saved, hits = counts
    assert part.counts == {"first_s": 10, "saved": saved, "found_in_cache": hits}
    assert [one[: len(advice)] for one in part.advice] == [advice] * bool(advice)
    assert part.evidence[-1] == "warm: it was ended" or saved is not None


@pytest.mark.parametrize(
    ("phase", "verdict"), [("Dynamo", "good"), ("Inductor", "bad"), ("build", "bad")]
)
def test_a_cache_that_has_nothing_is_bad_where_code_was_generated(phase, verdict):
    nothing = started(phases={phase: 1.0}, lookups=())
    result = found(empty=[nothing], warm=[nothing])
    assert start.judged(result).verdict == verdict and "not asked" in str(result)


def test_the_part_asks_for_two_starts_with_its_limits(monkeypatch):
    asked = mock.Mock(return_value=found(**GOOD))
    monkeypatch.setattr(start, "cold_start", asked)
    limits = {"timeout": 3.0, "memory": 7, "in_pieces": True}
    order = {"target": "m:make", "trains": True, "budget": 1.0}
    assert start.part(order | limits) == start.judged(found(**GOOD))
    asked.assert_called_once_with("m:make", ("warm", "copied"), train=True, **limits)
    asked.return_value = replace(found(**GOOD), interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        start.part(order | limits)


def test_why_a_cache_is_passed_by_is_in_torchs_words():
    passed = "FxGraphCache is not asked, so its part is done in each process: "
    said = start._passed_by(replace(PASSED, kind="FxGraphCache"))
    off = "untried: torch._functorch.config.autograd_cache_allow"
    assert said.startswith(f"{passed}a FunctionCtx in it: {off}")
    other = start._passed_by(Lookup("FxGraphCache", 0, 0, 1, ()))
    assert other == f"{passed}torch does not say why"


@pytest.mark.parametrize(
    ("lowered", "timed", "inductor", "build"),
    [
        (3.0, {"compile_file": [0.5, 1.5]}, 1.0, 2.0),
        (0.0, {"PyCodeCache.load_by_key_path": [1.0]}, 1.0, 0.0),  # found
        (2.0, {"PyCodeCache.load_by_key_path": [1.0]}, 2.0, 0.0),
        (2.0, {"AOTAutogradCache.inductor_load": [1.0]}, 3.0, 0.0),
        (9.0, {"compile_file": [9.0]}, 0.0, 4.0),  # at most what AOTAutograd took
    ],
)
def test_each_phase_has_the_seconds_of_no_other(
    lowered, timed, inductor, build, monkeypatch
):
    took = {"dynamo": 5e6, "aot_autograd": 2e6, "inductor": lowered / 2 * 1e6}
    took = {f"{name}_cumulative_compile_time_us": us for name, us in took.items()}
    late = {"aot_autograd_cumulative_compile_time_us": None}
    every = [SimpleNamespace(**took), SimpleNamespace(**took), SimpleNamespace(**late)]
    monkeypatch.setattr(_torch, "compile_history", every)
    monkeypatch.setattr(_torch, "compile_seconds", timed)
    assert start.phases() == {
        "Dynamo": 6.0,
        "AOTAutograd": 4.0 - inductor - build,
        "Inductor": inductor,
        "build": build,
    }


def test_what_caches_were_asked_is_torchs_own_count(monkeypatch):
    counts = {"aot_autograd": Counter(autograd_cache_bypass=1)}
    counts["inductor"] = Counter(fxgraph_cache_hit=2, fxgraph_cache_miss=3)
    monkeypatch.setattr(_torch, "counters", counts)
    why, other = '{"cache_bypass_reason": "why"}', '{"key": "a"}'
    told = [("aotautograd_cache_bypass", why), ("aotautograd_cache_bypass", why)]
    told += [("fx_graph_cache_hit", other), ("fx_graph_cache_miss", "no JSON")]
    told += [("another", '{"cache_bypass_reason": "another"}')]
    asked = [Lookup(**one) for one in start.lookups([_torch.Event(*e) for e in told])]
    assert asked == [
        Lookup("AOTAutogradCache", 0, 0, 1, ("why",)),
        Lookup("FxGraphCache", 2, 3, 0, ()),
    ]
    assert started(lookups=asked).found == "2 found, 3 missed, 1 bypassed"


# --- which processes are started ------------------------------------------------------


def test_an_interrupt_keeps_what_is_done_and_a_failure_the_others(model, monkeypatch):
    answers = [started(), started(problem="failed"), KeyboardInterrupt()]
    told = []

    def pretend(way, order, home):
        assert (order["timeout"], order["memory"]) == (600.0, None)
        for stage in ("runs", "has loaded"):
            told.append(stage)
            yield
        (home / "artifacts").write_bytes(b"abc")
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        yield answer

    monkeypatch.setattr(start, "started", pretend)
    result = cold_start(f"{model}:make")
    assert [way.name for way in result.ways] == ["empty", "warm"]
    assert result.interrupted and "interrupted" in str(result)
    assert result["warm"].problem == "failed"
    assert told == ["runs"] * 4 + ["has loaded"] * 4
    answers += [started()] * 2
    assert cold_start(f"{model}:make", ["artifacts"])["artifacts"].ships == 3
    answers += [KeyboardInterrupt(), started(problem="no weights")]
    with pytest.raises(KeyboardInterrupt):
        cold_start(f"{model}:make")
    with pytest.raises(InputError, match="make: no weights"):
        cold_start(f"{model}:make")


# --- real processes ------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_leaves_no_process(model, tmp_path):
    code = f"import torch_checkup as t; t.cold_start({model + ':hangs'!r}, ['warm'])"
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=here, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 90
    family, everyone = [], 3  # two ways to start, and the sleeper of the first
    while time.monotonic() < deadline and len(family) < everyone:
        time.sleep(0.2)
        family = psutil.Process(parent.pid).children(recursive=True)
    assert len(family) == everyone
    parent.send_signal(signal.SIGINT)
    parent.wait(30)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


@pytest.mark.weekly
@pytest.mark.parametrize("way", ["warm", "copied", "artifacts"])
def test_one_real_start_and_what_a_second_finds(way, model, tmp_path):
    order = {"target": f"{model}:by_name", "train": False}
    order |= {"timeout": 600.0, "memory": None}
    *_, first = start.started("empty", order, tmp_path)
    assert first.problem == "" and first.agrees is True
    assert set(first.phases) == set(start.PHASES)
    assert 0 < sum(first.phases.values()) <= first.first_s == first.wait_s
    assert first.found == "2 missed" and first.libraries
    *_, second = start.started(way, order, tmp_path)
    assert (second.problem, second.found) == ("", "2 found")
    assert bool(second.load_s) == (way == "artifacts")
