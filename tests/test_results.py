"""Results survive the disk, and a damaged file says so."""

import ast
import dataclasses
import errno
import json
import os
import pathlib
import re
import types
from unittest import mock

import pytest

from helpers import results
from helpers.benchmark import Comparison, Round
from helpers.results import ResultError
from helpers.sweeps import Point, Sweep
from helpers.text import seconds, unmark


@pytest.fixture
def comparison():
    return Comparison(
        names=("eager", "compiled"),
        speedup=2.0,
        interval=(1.9, 2.1),
        confidence=0.96,
        verdict="faster",
        median_s=(2e-3, 1e-3),
        cold_start_s=3.0,
        compiles=1,
        graphs=1,
        graph_breaks=0,
        page_faults=(0, 0),
        peak_bytes=(1024, 512),
        matches=True,
        max_error=1e-7,
        error64=(2e-7, 1e-7),
        rounds=(Round(2e-3, 1e-3, True, True), Round(2e-3, 1e-3, False, False)),
        notes=("a note",),
        threads=2,
        device="cpu",
        scope="this process",
    )


def test_a_comparison_comes_back_equal(comparison, tmp_path):
    path = comparison.save(tmp_path / "new" / "c.json")
    assert results.load(path) == comparison
    assert Comparison.from_json(comparison.to_json()) == comparison
    odd = dataclasses.replace(comparison, interval=None, peak_bytes=None, matches=None)
    assert Comparison.from_json(odd.to_json()) == odd


def test_a_sweep_comes_back_equal(comparison):
    points = tuple(Point(v, comparison) for v in (1, 2.5, "three"))
    swept = Sweep("size", "elements", points, True)
    assert Sweep.from_json(swept.to_json()) == swept
    with pytest.raises(ResultError, match="not a Comparison"):
        Comparison.from_json(swept.to_json())


def test_the_machine_and_command_travel_with_it(comparison):
    held = json.loads(comparison.to_json())["result"]
    assert held["machine"]["torch"].startswith(results.version_of("torch"))
    assert held["machine"]["cores"] >= 1
    assert held["command"] and held["when"].startswith("20")
    assert os.sep not in held["command"]


def test_the_command_holds_no_folder(monkeypatch):
    monkeypatch.delitem(results.sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(results.sys, "argv", ["/a/b/run.py", "/c/data.json", "-x"])
    assert results.command() == "run.py data.json"
    monkeypatch.setattr(results.sys, "argv", [""])
    assert results.command() == "python"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.99967, "1 s"),
        (0.9994, "999 ms"),
        (2e-6, "2 µs"),
        (0, "0 ns"),
        (61.2, "61.2 s"),
    ],
)
def test_seconds_in_words(value, said):
    assert seconds(value) == said


def damage(text, how):
    whole = json.loads(text)
    how(whole)
    return json.dumps(whole)


@pytest.mark.parametrize(
    "how",
    [
        lambda w: w["result"].pop("speedup"),
        lambda w: w["result"].update(speedup="fast"),
        lambda w: w["result"].update(extra=1),
        lambda w: w["result"].update(median_s=[1.0]),
        lambda w: w.update(kind="Sweep", result={"points": [{"value": [1]}]}),
        lambda w: w.update(kind="os.system"),
        lambda w: w.update(format=99),
        lambda w: w.pop("result"),
    ],
)
def test_damage_is_said(comparison, how):
    with pytest.raises(ResultError, match=r"measure again|damaged"):
        results.from_json(damage(comparison.to_json(), how))


def test_a_cut_or_empty_or_binary_file_is_said(comparison, tmp_path):
    path = tmp_path / "c.json"
    for content in (
        *(comparison.to_json()[:200].encode(), b"", b"\xff\xfe\x00", b"[]"),
        b"[" * 100_000,
    ):
        path.write_bytes(content)
        with pytest.raises(ResultError, match=r"c\.json"):
            results.load(path)


def test_a_write_that_fails_leaves_the_old_file(comparison, tmp_path, monkeypatch):
    path = comparison.save(tmp_path / "c.json")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def tired(_):
        raise KeyboardInterrupt

    other = dataclasses.replace(comparison, speedup=9.0)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="free some disk"):
        other.save(path)
    monkeypatch.setattr(os, "fsync", tired)
    with pytest.raises(KeyboardInterrupt):
        other.save(path)
    assert results.load(path) == comparison
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


def test_side_by_side(comparison):
    other = dataclasses.replace(comparison, speedup=4.0, interval=(3.9, 4.1))
    table = results.side_by_side(comparison, other, labels=("laptop", "server"))
    assert table.headings == ("", "laptop", "server")
    assert "2x" in table.rows[0][1] and "4x" in table.rows[0][2]
    renamed = dataclasses.replace(other, names=("copy", "chain"))
    assert results.side_by_side(comparison, renamed).rows[0] == table.rows[0]
    with pytest.raises(TypeError, match="compare"):
        results.side_by_side(3)


def test_text_and_html_say_the_same_and_marks_hide_all_that_varies(comparison):
    slower = dataclasses.replace(
        comparison, speedup=0.5, interval=(0.4, 0.6), verdict="slower", notes=()
    )
    assert unmark(str(comparison)) == unmark(str(slower))
    assert str(comparison) != str(slower)
    for cell in ("faster: 2x", "a note", "1 undisturbed", "paid back after"):
        assert cell in str(comparison) and cell in comparison._repr_html_()


def test_pay_back_of_a_slower_side_is_never(comparison):
    assert comparison.calls_to_pay_back == 2999
    never = dataclasses.replace(comparison, verdict="slower", median_s=(1e-3, 2e-3))
    assert "no number of calls" in str(never)


def test_every_kind_of_result_comes_back_equal(tmp_path):
    import torch

    from helpers import doctor, eager_bytes, graphs, kernels, output_code, recompiles
    from helpers.timing import Bandwidth

    def f(x):
        print(end="")
        return x.sin() + 1

    x = torch.ones(8)
    found = [
        graphs(f, x),
        recompiles(f, [(x,), (x,)]),
        kernels(f, x),
        output_code(f, x),
        eager_bytes(f, x),
        doctor(compile=False),
        Bandwidth(1e9, 1024, "cpu"),
    ]
    for one in found:
        path = results.save(one, tmp_path / "one.json")
        assert results.load(path) == one
        assert json.loads(path.read_text())["machine"]["torch"]
    elsewhere = {name for name, home in results._HOMES.items() if ".gpu." in home}
    elsewhere |= {"Comparison", "Recording", "Sweep"}  # with tests of their own
    assert {type(one).__name__ for one in found} | elsewhere == set(results._HOMES)


# ------------------------------------------------------- where results come from and go


def test_every_kind_that_is_stored_can_be_found_again():
    """A class under ``@stored`` that is not listed could be saved, and never loaded."""
    folder = pathlib.Path(results.__file__).parent
    found = {}
    for path in folder.rglob("*.py"):
        module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            decorators = getattr(node, "decorator_list", ())
            if "stored" in [getattr(each, "id", "") for each in decorators]:
                found[node.name] = module
    assert found == results._HOMES and len(found) > 10


def test_a_result_without_a_machine_is_stored_with_one(monkeypatch):
    from helpers.timing import Bandwidth

    monkeypatch.setattr(results, "command", lambda: "run.py")
    monkeypatch.setattr(results, "now", lambda: "2026-01-02T03:04:05+00:00")
    held = json.loads(Bandwidth(1.0, 2, "cpu").to_json())
    assert held == {
        "format": 1,
        "kind": "Bandwidth",
        "result": {"bytes_per_s": 1.0, "working_set": 2, "device": "cpu"},
        "machine": dataclasses.asdict(results.Machine.here()),
        "command": "run.py",
        "when": "2026-01-02T03:04:05+00:00",
    }


def test_whole_numbers_become_the_floats_that_belong_there():
    from helpers.timing import Bandwidth

    text = Bandwidth(3.0, 2, "cpu").to_json().replace("3.0", "3")
    back = Bandwidth.from_json(text)
    assert type(back.bytes_per_s) is float and type(back.working_set) is int
    with pytest.raises(ResultError, match=r"2\.5 where a int belongs"):
        Bandwidth.from_json(text.replace('"working_set": 2', '"working_set": 2.5'))
    with pytest.raises(ResultError, match="'3' where a float belongs"):
        Bandwidth.from_json(text.replace('"bytes_per_s": 3', '"bytes_per_s": "3"'))


def test_a_file_of_another_format_says_which():
    from helpers.timing import Bandwidth

    text = Bandwidth(3.0, 2, "cpu").to_json().replace('"format": 1', '"format": 2')
    with pytest.raises(ResultError, match=r"has format 2, and this version .* reads 1"):
        results.from_json(text)


@pytest.mark.parametrize("there", [True, False])
def test_the_machine_with_and_without_torch_and_a_gpu(monkeypatch, there):
    cuda = types.SimpleNamespace(
        is_available=lambda: there, get_device_name=lambda: "NVIDIA H100"
    )
    torch = types.SimpleNamespace(
        cuda=cuda, get_num_threads=lambda: 7, __version__="9.9+cpu"
    )
    monkeypatch.setattr(results, "nvidia_driver", lambda: "555.1")
    monkeypatch.setattr(results, "version_of", lambda package: f"version of {package}")
    with mock.patch.dict(results.sys.modules, torch=torch):
        found = results.Machine.here()
    assert (found.threads, found.torch) == (7, "9.9+cpu")
    assert found.triton == "version of triton"
    assert (found.gpu, found.driver) == (
        ("NVIDIA H100", "555.1") if there else (None, None)
    )
    where = "NVIDIA H100" if there else f"{found.cpu}, {found.cores} cores"
    assert str(found) == f"{where}, {found.system}, torch 9.9+cpu"
    with mock.patch.dict(results.sys.modules):
        results.sys.modules.pop("torch", None)
        bare = results.Machine.here()
    assert (bare.threads, bare.torch) == (None, "version of torch")
    assert bare.gpu is None and bare.driver is None


def test_what_the_machine_is_called(monkeypatch):
    monkeypatch.setattr(results.platform, "system", lambda: "Linux")
    monkeypatch.setattr(results.platform, "machine", lambda: "riscv")
    monkeypatch.setattr(results.platform, "python_version", lambda: "3.99.1")
    found = results.Machine.here()
    assert found.system == "Linux riscv" and found.python == "3.99.1"
    text = "processor : 0\nmodel name\t: A Fast: One \nmodel name : another\n"
    monkeypatch.setattr(results.Path, "read_text", lambda _: text)
    assert results._cpu_name() == "A Fast: One"
    monkeypatch.setattr(results.Path, "read_text", lambda _: "nothing\n")
    monkeypatch.setattr(results.platform, "processor", lambda: "")
    assert results._cpu_name() == "riscv"

    def missing(_):
        raise FileNotFoundError

    monkeypatch.setattr(results.Path, "read_text", missing)
    monkeypatch.setattr(results.platform, "processor", lambda: "a chip")
    assert results._cpu_name() == "a chip"


def test_cores_and_memory_are_those_that_may_be_used(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 7}, raising=False)
    assert results.available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert results.available_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert results.available_cores() == 1
    psutil = types.SimpleNamespace(
        virtual_memory=lambda: types.SimpleNamespace(total=77)
    )
    monkeypatch.setitem(results.sys.modules, "psutil", psutil)
    assert results.memory_bytes() == 77
    monkeypatch.setitem(results.sys.modules, "psutil", None)
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    assert results.memory_bytes() == 40960
    monkeypatch.delattr(os, "sysconf")
    assert results.memory_bytes() is None


def test_the_driver_is_asked_once_and_may_be_missing(monkeypatch):
    asked = []

    def answer(command, **options):
        asked.append((command, options))
        return "555.42\n555.42\n"

    ask = results.nvidia_driver.__wrapped__
    monkeypatch.setattr(results.subprocess, "check_output", answer)
    assert ask() == "555.42"
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    assert asked == [(query, {"text": True, "timeout": 20})]
    for error in (
        FileNotFoundError(),
        results.subprocess.TimeoutExpired("nvidia-smi", 20),
    ):
        monkeypatch.setattr(
            results.subprocess, "check_output", mock.Mock(side_effect=error)
        )
        assert ask() is None
    monkeypatch.setattr(results.subprocess, "check_output", lambda *_, **__: "\n")
    assert ask() is None


def test_what_was_run_and_when(monkeypatch):
    monkeypatch.setitem(results.sys.modules, "ipykernel", types.ModuleType("x"))
    assert results.command() == "notebook"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", results.now())
    assert results.version_of("no-such-package-here") is None
    assert results.version_of("pytest") == pytest.__version__


def test_columns_side_by_side(comparison):
    other = dataclasses.replace(comparison, max_error=1.0)
    table = results.side_by_side(comparison, other)
    assert table.headings == ("", "A", "B")
    facts = [*zip(comparison.facts(), other.facts(), strict=True)]
    assert table.rows[: len(facts)] == tuple(
        (one[0], f"⟨{one[1]}⟩", f"⟨{two[1]}⟩") for one, two in facts
    )
    machine = comparison.machine
    assert [row[0] for row in table.rows[len(facts) :]] == [
        *("gpu", "cpu", "cores", "torch", "triton", "python")
    ]
    assert table.rows[-1][1] == f"⟨{machine.python}⟩"
    with pytest.raises(TypeError, match="one or more results"):
        results.side_by_side()


def test_a_file_is_utf8_with_newlines_and_its_folder_is_made(tmp_path):
    path = results.write_atomically(tmp_path / "a" / "b.txt", "µ\n⟨é⟩\n")
    assert path == tmp_path / "a" / "b.txt"
    assert path.read_bytes() == "µ\n⟨é⟩\n".encode()
    with pytest.raises(OSError, match=r"cannot write c\.txt: .*Nothing was changed"):
        results.write_atomically(path / "c.txt", "x")
