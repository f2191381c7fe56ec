"""Results survive the disk, and a damaged file says so."""

import dataclasses
import errno
import json
import os
import platform
import re
import subprocess
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from helpers import compare, results, side_by_side
from helpers.benchmark import Comparison
from helpers.errors import ResultError
from helpers.results import Machine, Result, load, write_atomically
from helpers.sweeps import Point, Sweep
from helpers.text import pre
from helpers.timing import Bandwidth
from tests.refresh import python
from torch_checkup.checkups import Checkup, Part


@pytest.fixture(scope="module")
def comparison():
    x = torch.ones(1000)
    return compare(lambda x: x.sin().cos(), torch.sin, x, same_answer=False, budget=0.1)


# --- what is stored ---------------------------------------------------------------


def shown(x):
    print(end="")  # breaks the graph
    return x.sin() + 1


def made():
    """Return how each kind of result is made that no other test brings back."""
    from helpers import doctor, eager_bytes, graphs, kernels, output_code

    x = torch.ones(8)
    return {
        "Graphs": lambda: graphs(shown, x),
        "Kernels": lambda: kernels(torch.sin, x),
        "Code": lambda: output_code(torch.sin, x),
        "EagerBytes": lambda: eager_bytes(torch.sin, x),
        "Diagnosis": lambda: doctor(compile=False),
        "Bandwidth": lambda: Bandwidth(1e9, 1024, "cpu"),
    }


@pytest.mark.parametrize("kind", made())
def test_a_result_comes_back_equal(kind, tmp_path):
    result = made()[kind]()
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
    text = json.dumps(whole, indent=1, ensure_ascii=False)
    assert result.to_json().split('"when"')[0] == text.split('"when"')[0]
    assert result.to_json().endswith("\n}\n")


def test_a_comparison_and_a_sweep_come_back_equal(comparison):
    assert Comparison.from_json(comparison.to_json()) == comparison
    bare = dataclasses.replace(comparison, peak_bytes=None, matches=None)
    points = Point(1, comparison), Point(2.5, bare), Point("three", bare)
    swept = Sweep("size", "elements", points, True)
    assert Sweep.from_json(swept.to_json()) == swept
    with pytest.raises(ResultError, match="a Sweep, not a Comparison"):
        Comparison.from_json(swept.to_json())


def test_no_two_kinds_of_result_have_one_name():
    """A file has the name alone: the one would be read as the other."""
    for module in results.all_modules():
        import_module(module)
    kinds, left = set(), [Result]
    while left:
        below = left.pop().__subclasses__()
        kinds |= {kind for kind in below if kind.__module__.startswith("helpers.")}
        left += below
    names = [kind.__name__ for kind in kinds]
    assert len(names) > 10 and sorted(names) == sorted(set(names))


def test_a_kind_is_found_whose_module_nobody_has_imported(tmp_path):
    path = str(Sweep("size", "elements", (), True).save(tmp_path / "sweep.json"))
    done = python(
        "import sys; from helpers import load; before = set(sys.modules);"
        f"print(type(load({path!r})).__module__ in {{*sys.modules}} - before)"
    )
    assert done.stdout == "True\n"


def test_a_module_that_lacks_something_hides_no_kind_of_another(tmp_path):
    path = str(Sweep("size", "elements", (), True).save(tmp_path / "sweep.json"))
    done = python(
        "from helpers import errors, results\n"
        "usual = results.import_module\n"
        "def without_triton(name):\n"
        "    if name == 'helpers.gpu.compile':\n"
        "        raise errors.Unavailable('Triton is not installed')\n"
        "    return usual(name)\n"
        "results.import_module = without_triton\n"
        f"print(type(results.load({path!r})).__name__)"
    )
    assert done.stdout == "Sweep\n"


def test_the_check_up_reads_its_own_kinds_and_those_of_the_helpers(
    comparison, tmp_path
):
    """It has the helpers inside it: their classes are others than ours."""
    paths = [str(comparison.save(tmp_path / "comparison.json"))]
    checkup = Checkup("mine:make", (Part("capture", "good", "one graph"),), False, 1)
    paths.append(str(checkup.save(tmp_path / "checkup.json")))
    done = python(
        "from torch_checkup import load\n"
        f"for path in {paths}:\n"
        "    found = load(path)\n"
        "    print(type(found).__module__, found.to_json() == open(path).read())"
    )
    homes = "torch_checkup.helpers.benchmark", "torch_checkup.checkups"
    assert done.stdout == "".join(f"{home} True\n" for home in homes)
    with pytest.raises(ResultError, match="KeyError: 'Checkup'"):
        load(paths[1])  # the helpers know nothing of what is built on them


def test_the_machine_and_the_command_travel_with_it(comparison, monkeypatch):
    held = json.loads(comparison.to_json())["result"]
    assert held["machine"]["torch"] == torch.__version__
    assert held["when"].startswith("20") and held["when"].endswith("+00:00")
    for argv, module, command in (
        (["/a/b/run.py", "/c/data.json", "-x"], None, "run.py data.json"),
        (["/a/c/__main__.py", "x"], "b.c.__main__", "python -m b.c x"),
        (["/a/b/c.py", "x"], "b.c", "python -m b.c x"),
    ):
        monkeypatch.setattr(sys, "argv", argv)
        spec = module and ModuleSpec(module, None)
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
        assert json.loads(Bandwidth(1.0, 2, "cpu").to_json())["command"] == command


# --- what is not believed ---------------------------------------------------------

DAMAGE = {
    "a field less": lambda w: w["result"].pop("speedup"),
    "half a pair": lambda w: w["result"].update(median_s=[1.0]),
    "no kind of ours": lambda w: w.update(kind="os.system"),
    "a module": lambda w: w.update(kind="helpers.benchmark.Comparison"),
    "another format": lambda w: w.update(format=99),
    "no result": lambda w: w.pop("result"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_said(name, comparison):
    whole = json.loads(comparison.to_json())
    DAMAGE[name](whole)
    said = r"^this is no .* damaged \(\w+: .*\): measure again$"
    with pytest.raises(ResultError, match=said) as told:
        Result.from_json(json.dumps(whole))
    assert name != "another format" or "it has format 99" in str(told.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]", b"[" * 100_000])
def test_a_file_that_holds_no_result_is_named(content, tmp_path):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(ResultError, match=r"c\.json"):
        load(path)


# --- how it is written ------------------------------------------------------------


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_atomically(tmp_path / "c.txt", "old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="free some disk"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["c.txt"]


def test_a_file_is_utf8_with_newlines_and_its_folder_is_made(tmp_path):
    path = write_atomically(tmp_path / "a" / "b.txt", "µ\n⟨é⟩\n")
    assert path.read_bytes() == "µ\n⟨é⟩\n".encode()
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    (tmp_path / "before").hardlink_to(path)
    write_atomically(path, "new")
    assert (tmp_path / "before").read_text("utf-8") == "µ\n⟨é⟩\n", "written in place"
    with pytest.raises(
        OSError, match=r"^cannot write c\.txt: .*\. Nothing .*write to\.$"
    ):
        write_atomically(path / "c.txt", "x")


# --- the machine ------------------------------------------------------------------


def test_the_machine_names_what_numbers_depend_on():
    machine = Machine.here()
    assert machine.torch == torch.__version__
    assert machine.cores >= 1 and machine.memory_bytes > 2**28
    if hasattr(os, "sched_getaffinity"):
        assert machine.cores == len(os.sched_getaffinity(0))
    assert machine.threads == torch.get_num_threads()
    assert machine.python == platform.python_version()
    assert machine.system == f"{platform.system()} {platform.machine()}"
    assert machine.triton == results.version_of("triton")
    file = Path("/proc/cpuinfo")
    if file.exists() and "model name" in file.read_text():
        assert re.search(
            rf"model name\s*: {re.escape(machine.cpu)}\n", file.read_text()
        )


def test_what_is_not_there_is_not_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(results, "nvidia_driver", lambda: "555.42")
    machine = Machine.here()
    assert machine.gpu is machine.driver is None
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "torch")
        machine = Machine.here()
    assert machine.threads is machine.gpu is machine.driver is None
    assert machine.torch == results.version_of("torch") is not None
    assert results.version_of("no such package") is None


def test_a_gpu_is_named_with_its_driver(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    monkeypatch.setattr(subprocess, "check_output", lambda *_, **__: "555.42\n555.42\n")
    results.nvidia_driver.cache_clear()
    try:
        machine = Machine.here()
    finally:
        results.nvidia_driver.cache_clear()
    assert (machine.gpu, machine.driver) == ("NVIDIA H100", "555.42")


# --- side by side -----------------------------------------------------------------


def test_comparisons_side_by_side(comparison):
    other = dataclasses.replace(comparison, max_error=1.0)
    table = side_by_side(comparison, other, labels=("laptop", "server"))
    assert table.headings == ("", "laptop", "server")
    assert side_by_side(comparison, other).headings == ("", "A", "B")
    facts = zip(comparison.facts(), other.facts(), strict=True)
    rows = [(a[0], f"⟨{a[1]}⟩", f"⟨{b[1]}⟩") for a, b in facts]
    assert [*table.rows[: len(rows)]] == rows
    machine = comparison.machine
    for name, *cells in table.rows[len(rows) :]:
        assert cells == [f"⟨{getattr(machine, name)}⟩"] * 2
    last = [row[0] for row in table.rows[len(rows) :]]
    assert last == ["gpu", "cpu", "cores", "torch", "triton", "python"]
    for wrong in ((), (3,)):
        with pytest.raises(TypeError, match="one or more results of compare"):
            side_by_side(*wrong)
