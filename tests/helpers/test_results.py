"""Results survive the disk, and a damaged file says so."""

import dataclasses
import errno
import json
import os
import sys
from importlib.machinery import ModuleSpec
from unittest import mock

import pytest
import torch

import helpers
from helpers import compare
from helpers.benchmark import Comparison
from helpers.errors import ResultError
from helpers.results import Machine, Result, load, write_atomically
from helpers.sweeps import Sweep
from helpers.text import pre
from helpers.timing import Bandwidth
from tests.kinds import broken
from tests.refresh import python


@pytest.fixture(scope="module")
def comparison():
    x = torch.ones(1000)
    return compare(lambda x: x.sin().cos(), torch.sin, x, same_answer=False, budget=0.1)


X = torch.ones(8)
MADE = {  # how each kind of result is made that no other test brings back
    "Graphs": lambda: helpers.graphs(broken, X),
    "Kernels": lambda: helpers.kernels(torch.sin, X),
    "EagerBytes": lambda: helpers.eager_bytes(torch.sin, X),
    "Diagnosis": lambda: helpers.doctor(compile=False),
    "Bandwidth": lambda: Bandwidth(1e9, 1024, "cpu"),
    "Forecasts": lambda: helpers.forecast_over(lambda n: (torch.sin, X[:n]), [4, 8]),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_result_comes_back_equal(kind, tmp_path):
    result = MADE[kind]()
    assert type(result).__name__ == kind
    path = write_atomically(tmp_path / "one.json", result.to_json())
    assert load(path) == type(result).from_json(path.read_text()) == result
    assert repr(result) == str(result)
    if kind == "Kernels":  # which has a line below its table
        table = result.table()
        last = str(result).removeprefix(f"{table}\n")
        assert result._repr_html_() == table._repr_html_() + pre(last)
    whole = json.loads(path.read_text())
    assert [*whole] == ["format", "kind", "result", "machine", "command", "when"]
    assert whole["machine"] == dataclasses.asdict(Machine.here())


def test_a_comparison_and_a_sweep_come_back_equal(comparison, tmp_path):
    assert Comparison.from_json(comparison.to_json()) == comparison
    bare = dataclasses.replace(comparison, peak_bytes=None, matches=None)
    values, found = (1, 2.5, "three"), (comparison, bare, bare)
    swept = Sweep("size", "elements", values, found, True)
    assert Sweep.from_json(swept.to_json()) == swept
    place = str(swept.save(tmp_path / "swept.json"))  # for whoever imports no more:
    told = python(f"from helpers.results import load; print(load({place!r}).parameter)")
    assert told.stdout == "size\n"
    with pytest.raises(ResultError, match="a Sweep, not a Comparison"):
        Comparison.from_json(swept.to_json())


def test_the_machine_and_the_command_travel_with_it(comparison, monkeypatch):
    held = json.loads(comparison.to_json())["result"]
    assert held["machine"]["torch"] == torch.__version__
    assert held["when"].startswith("20") and held["when"].endswith("+00:00")
    for argv, module, command in (
        (["/a/run.py", "/c/d.json", "--to=/e/f.txt"], None, "run.py d.json --to=f.txt"),
        (["run.py", "--only", "a,b", "b<1"], None, "run.py --only a,b 'b<1'"),
        (["/a/c/__main__.py", "x"], "b.c.__main__", "python -m b.c x"),
        (["/a/b/c.py", "x"], "b.c", "python -m b.c x"),
    ):
        monkeypatch.setattr(sys, "argv", argv)
        spec = module and ModuleSpec(module, None)
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
        assert json.loads(Bandwidth(1.0, 2, "cpu").to_json())["command"] == command


DAMAGE = {
    "a field less": lambda w: w["result"].pop("speedup"),
    "half a pair": lambda w: w["result"].update(median_s=[1.0]),
    "a module": lambda w: w.update(kind="helpers.benchmark.Comparison"),
    "another format": lambda w: w.update(format=99),
    "no result": lambda w: w.pop("result"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_said(name, comparison):
    whole = json.loads(comparison.to_json())
    DAMAGE[name](whole)
    said = r"^this is no .* damaged \(\w+: .*\): measure again$|not a Result$|format 99"
    with pytest.raises(ResultError, match=said):
        Result.from_json(json.dumps(whole))


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_atomically(tmp_path / "c.txt", "old")

    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", mock.Mock(side_effect=full))
    with pytest.raises(OSError, match="free some disk"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["c.txt"]
