"""A recording is believed only when it follows from its samples; a lesson goes on."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import DeviceType

from helpers import _torch, plot_sweep, recorded, recordings
from helpers.__main__ import main
from helpers.gpu import recorder
from helpers.gpu.cases import Case, Outcome, Setting, counted
from helpers.recordings import Finding, Recording, read
from helpers.results import Machine, ResultError
from helpers.sweeps import Point, Sweep
from helpers.text import unmark
from tests.refresh import client, course_environment

ROOT = Path(__file__).parents[1]
CPU = (
    ROOT / "tests" / "recordings" / "cpu.json"
)  # made by `python -m helpers record --quick` on a CPU
TEXT = CPU.read_text(encoding="utf-8")
QUICK = Setting("cpu", quick=True)


# --- what a file holds ------------------------------------------------------------


def test_a_recording_says_where_when_and_with_what() -> None:
    kept = read(CPU)
    assert str(kept).startswith(f"recorded on {kept.machine.cpu} (no GPU), ")
    assert kept.machine.torch in str(kept) and "helpers record --quick" in str(kept)
    assert Recording.from_json(kept.to_json()) == kept
    assert kept.label in kept._repr_html_()


def test_the_test_recording_is_small_and_timed_in_full() -> None:
    assert len(TEXT) < 200_000
    timed = [f.comparison for f in read(CPU) if f.comparison]
    assert len(timed) >= 10 and all(len(one.rounds) >= 6 for one in timed)


Damage = Callable[[dict[str, Any]], object]


def first(result: dict[str, Any]) -> dict[str, Any]:
    """Return the first comparison of a recording, as JSON has it."""
    return next(f["comparison"] for f in result["findings"] if f["comparison"])


def hurt(change: Damage) -> str:
    """Return the first cases of the test recording, with something changed."""
    whole = json.loads(TEXT)
    whole["result"]["findings"] = whole["result"]["findings"][:8]
    change(whole["result"])
    return json.dumps(whole)


DAMAGE: dict[str, tuple[Damage, str]] = {
    "another schema": (lambda r: r.update(schema=2), "has schema 2.*reads 1"),
    "a field of the future": (lambda r: r.update(colour="red"), "damaged, or newer"),
    "no schema": (lambda r: r.pop("schema"), "damaged"),
    "no version": (lambda r: r["machine"].update(torch=None), "is no version"),
    "real sizes, no GPU": (lambda r: r.update(quick=False), "No GPU|no GPU is named"),
    "no time": (lambda r: r.update(when="yesterday"), "'yesterday' is no time"),
    "a word for a number": (lambda r: first(r).update(speedup="fast"), "damaged"),
    "findings are no list": (lambda r: r.update(findings=7), "damaged"),
    "NaN": (
        lambda r: first(r)["rounds"][0].update(a_s=float("nan")),
        "not a finite number of seconds",
    ),
    "a negative time": (
        lambda r: first(r)["rounds"][0].update(b_s=-1.0),
        "not a finite number of seconds",
    ),
    "an endless first call": (
        lambda r: first(r).update(cold_start_s=float("inf")),
        "not a finite number of seconds",
    ),
    "missing samples": (
        lambda r: first(r).update(rounds=first(r)["rounds"][:3]),
        "3 rounds of samples",
    ),
    "a better speed-up": (lambda r: first(r).update(speedup=99.0), "do not follow"),
    "a better verdict": (lambda r: first(r).update(verdict="superb"), "do not follow"),
    "no interval": (lambda r: first(r).update(interval=None), "do not follow"),
    "more confidence": (lambda r: first(r).update(confidence=0.999), "do not follow"),
    "another GPU": (
        lambda r: r["machine"].update(gpu="NVIDIA H200"),
        "measured on another machine",
    ),
    "another torch": (
        lambda r: r["machine"].update(torch="2.99.0"),
        "with another torch",
    ),
    "twice the same": (
        lambda r: r["findings"].append(r["findings"][0]),
        "occurs twice",
    ),
    "an unknown status": (
        lambda r: r["findings"][0].update(status="fine"),
        "'fine' is none of",
    ),
    "done, with nothing found": (
        lambda r: r["findings"][0].update(facts=[], texts=[], comparison=None),
        "nothing was found",
    ),
    "failed, and not why": (
        lambda r: r["findings"][0].update(status="failed", message=""),
        "not why",
    ),
    "a number that is none": (
        lambda r: r["findings"][0].update(seconds=float("nan")),
        "not finite",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_said(name: str, tmp_path: Path) -> None:
    change, said = DAMAGE[name]
    path = tmp_path / "gpu.json"
    path.write_text(hurt(change))
    with pytest.raises(ResultError, match=said):
        read(path)
    told = recorded("chains", folder=tmp_path)
    assert not told
    assert "gpu.json" in str(told) and "make record" in str(told)


def test_undamaged_it_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(hurt(lambda result: None))
    assert read(path).findings == read(CPU).findings[:8]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(TEXT) - 3))
def test_a_file_that_was_cut_off_is_never_believed(length: int) -> None:
    with pytest.raises(ResultError, match="damaged"):
        Recording.from_json(TEXT[:length])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["speedup", "confidence", "median_s", "interval"]),
    st.floats(1.0001, 10),
    st.booleans(),
)
def test_a_prettier_number_is_never_believed(
    name: str, factor: float, up: bool
) -> None:
    def prettier(result: dict[str, Any]) -> None:
        one, by = first(result), factor if up else 1 / factor
        old = one[name]
        one[name] = [old[0] * by, old[1]] if isinstance(old, list) else old * by

    with pytest.raises(ResultError, match="do not follow"):
        Recording.from_json(hurt(prettier)).checked()


def test_nothing_else_counts_as_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    kept = next(f.comparison for f in read(CPU) if f.comparison)
    kept.save(path)
    with pytest.raises(ResultError, match="does not hold a recording"):
        read(path)
    path.write_bytes(b"\x80\x04\x95")  # the first bytes of a pickle
    with pytest.raises(ResultError, match=r"gpu\.json"):
        read(path)


# --- what a lesson shows ----------------------------------------------------------


def test_without_a_recording_a_sentence_says_how_to_make_one(tmp_path: Path) -> None:
    none = recorded("chains", "length", folder=tmp_path)
    assert not none and not none.points
    assert "No GPU recording" in str(none) and "make record" in str(none)
    assert none.said(8) == "nothing recorded" and none.texts("block") == {}


def test_the_folder_of_the_course_holds_no_damaged_recording() -> None:
    for path in recordings.FOLDER.glob("*.json"):
        assert not read(path).quick


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the recording of the CPU, for this process and its kernels."""
    (tmp_path / "cpu.json").write_text(TEXT)
    monkeypatch.setenv("COURSE_RECORDED", str(tmp_path))
    return tmp_path


def test_an_experiment_and_a_series_of_it(folder: Path) -> None:
    whole, part = recorded("chains"), recorded("chains", "length")
    assert {f.series for f in whole.findings} > {f.series for f in part.findings}
    assert [p.value for p in part.points][:2] == [1, 8]
    assert part.said(8) == part.said("8") != "not recorded" == part.said(7)
    assert not recorded("chains", "width") and "chains, width" in str(
        recorded("chains", "width")
    )


def test_the_newest_is_shown_and_this_machines_own_before_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gpu(name: str, when: str) -> None:
        kept = read(CPU)
        there = dataclasses.replace(kept.machine, gpu=name)
        found = [f for f in kept if not f.comparison]
        made = dataclasses.replace(
            kept, machine=there, when=when, findings=tuple(found), quick=False
        )
        made.save(folder / f"{name}.json")

    gpu("A", "2030-01-01T00:00:00+00:00")
    gpu("B", "2031-01-01T00:00:00+00:00")
    assert recorded("machine").label == "recorded on B, 2031-01-01"
    here = dataclasses.replace(Machine.here(), gpu="A")
    monkeypatch.setattr(Machine, "here", lambda: here)
    assert recorded("machine").label == "recorded on A, 2030-01-01"


def test_a_damaged_neighbour_is_mentioned(folder: Path) -> None:
    (folder / "zzz.json").write_text(TEXT[:1000])
    found = recorded("chains", "length")
    assert found and "zzz.json" in found.beside and "zzz.json" in repr(found)


def test_a_page_reads_the_same_with_and_without(folder: Path, tmp_path: Path) -> None:
    found, none = recorded("chains"), recorded("chains", folder=tmp_path / "none")
    for one in (found, none):
        assert re.fullmatch(r"⟨[^⟩\n]+⟩", repr(one))
    assert unmark(repr(found)) == unmark(repr(none))


def a_sweep(*names: Any) -> Sweep:
    """Return a sweep over *names*, whose times come from the test recording."""
    kept = next(f.comparison for f in read(CPU) if f.comparison)
    return Sweep("chain", "", tuple(Point(name, kept) for name in names), True)


@pytest.mark.parametrize("names", [("1", "8"), (1, 8)])
def test_a_plot_marks_what_was_recorded(folder: Path, names: tuple) -> None:
    found, none = recorded("chains", "length"), recorded("nothing")
    alone = plot_sweep(a_sweep(*names), recorded=none)
    both = plot_sweep(a_sweep(*names), recorded=found)
    legend = [t.get_text() for t in both.figure.legends[0].get_texts()]
    assert found.label in legend and "eager, recorded" in legend
    assert found.label not in [t.get_text() for t in alone.figure.legends[0].texts]
    assert unmark(both.alt) == unmark(alone.alt)
    assert found.label in both.alt and "has nothing of nothing" in alone.alt


SETUP = """
import os
from helpers import compare, plot_sweep, recorded
from helpers.sweeps import Point, Sweep
import torch
def f(x): return x * 0.9
race = compare(f, f, torch.randn(100_000), budget=0.05)
here = Sweep("chain", "", (Point("1", race), Point("8", race)), True)
"""
CELL = """
os.environ["COURSE_RECORDED"] = {folder!r}
display(recorded("chains", "length"))
plot_sweep(here, recorded=recorded("chains", "length"))
"""


def shown(*folders: Path) -> list[tuple[str, str]]:
    """Return text and HTML of a cell, run where each folder is the recordings'."""
    sources = [SETUP, *(CELL.format(folder=str(folder)) for folder in folders)]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    page = nbformat.v4.new_notebook(cells=cells)
    with course_environment():
        client(page, folders[0]).execute()
    data = [[o["data"] for o in cell.outputs] for cell in page.cells[1:]]
    kinds = "text/plain", "text/html"
    return [tuple("\n".join(d[kind] for d in cell) for kind in kinds) for cell in data]


def test_a_notebook_shows_a_recording_or_says_why_not(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty, damaged = tmp_path_factory.mktemp("empty"), tmp_path_factory.mktemp("bad")
    (damaged / "h200.json").write_text(hurt(DAMAGE["NaN"][0]))
    (text, html), (none, _), (bad, _) = shown(folder, empty, damaged)
    label = recorded("chains", folder=folder).label
    assert label in text and f"{label}: 1:" in html  # in the alt text of the picture
    assert "No GPU recording is here yet" in none
    assert "h200.json" in bad and "not a finite number" in bad
    assert unmark(text) == unmark(none) == unmark(bad)


# --- how it is made ---------------------------------------------------------------


@pytest.fixture
def one_thread() -> Iterator[None]:
    """On a busy machine, two threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_a_quick_run_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_PATIENCE", 100)  # however busy the machine is
    chosen = recorder.cases(QUICK, ["machine", "tf32", "chains", "CUDA graphs"])
    wanted = {
        ("machine", 2**20),
        ("tf32", 64),
        ("chains", 1),
        ("CUDA graphs", "58 sizes"),
    }
    chosen = [c for c in chosen if (c.experiment, c.value) in wanted]
    chosen = [c for c in chosen if c.series != "medium"]
    path, said = tmp_path / "cpu.json", list[str]()
    whole = recorder.record(path, QUICK, chosen, say=said.append)
    assert read(path) == whole and len(said) == len(whole.findings) == len(chosen)
    by = {f.experiment: f for f in whole}
    assert by["CUDA graphs"].said() == "not run: needs an NVIDIA GPU"
    assert dict(by["machine"].facts)["GB/s"] > 0
    assert by["chains"].comparison.compiles == 1, "not from a cold start"
    errors = dict(by["tf32"].facts)
    assert errors["error, highest"] < 1e-4
    again = recorder.record(path, QUICK, chosen, say=said.append)
    assert [f for f in again if f.status == "done"] == [
        f for f in whole if f.status == "done"
    ]


def made(*values: int, run: Callable[[Setting], Outcome] | None = None) -> list[Case]:
    """Return cases that count how often they ran."""
    run = run or (lambda setting: Outcome(facts=(("n", 1),)))
    return [Case("machine", "test", value, run) for value in values]


@pytest.fixture(autouse=True)
def no_first_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_first_compile", lambda setting: None)
    monkeypatch.setattr(recorder, "free", lambda: None)


def test_a_failing_case_is_kept_as_failed_and_tried_again(tmp_path: Path) -> None:
    ran = []

    def fails(setting: Setting) -> Outcome:
        ran.append("fails")
        raise RuntimeError("out of memory in /opt/some/where/file.py\nand more")

    def works(setting: Setting) -> Outcome:
        ran.append("works")
        return Outcome(facts=(("n", 1),))

    path = tmp_path / "gpu.json"
    chosen = made(1, run=fails) + made(2, run=works)
    for _ in range(2):
        recorder.record(path, QUICK, chosen, say=ran.append)
    found = {f.value: f for f in read(path)}
    assert found[1].said() == "failed: RuntimeError: out of memory in file.py"
    assert found[2].status == "done"
    assert [r for r in ran if r in ("fails", "works")] == ["fails", "works", "fails"]
    recorder.record(path, QUICK, made(1), say=ran.append)
    assert read(path).findings[0].status == "done"


def test_an_interrupt_loses_nothing_that_was_measured(tmp_path: Path) -> None:
    def interrupted(setting: Setting) -> Outcome:
        raise KeyboardInterrupt

    path, said = tmp_path / "gpu.json", list[str]()
    chosen = made(1) + made(2, run=interrupted) + made(3)
    with pytest.raises(KeyboardInterrupt):
        recorder.record(path, QUICK, chosen, say=said.append)
    assert [f.value for f in read(path)] == [1]
    recorder.record(path, QUICK, made(1, 2, 3), say=said.append)
    assert [f.value for f in read(path)] == [1, 2, 3]
    assert len(said) == 3, "what was there was measured again"


def test_the_budget_stops_between_two_cases(tmp_path: Path) -> None:
    path, said = tmp_path / "gpu.json", list[str]()
    whole = recorder.record(path, QUICK, made(1, 2), minutes=0.01, say=said.append)
    assert not whole.findings and said == ["2 cases are left: run it again to go on"]


def test_a_case_that_hangs_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_PATIENCE", 0.02)

    def hangs(setting: Setting) -> Outcome:
        while True:
            pass

    path = tmp_path / "gpu.json"
    recorder.record(path, QUICK, made(1, run=hangs) + made(2), say=str)
    hung, after = read(path)
    assert "TimeoutError" in hung.message and after.status == "done"


@pytest.mark.parametrize("name", ["gpu", "torch", "triton"])
def test_a_file_of_another_machine_is_not_touched(name: str, tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    kept = dataclasses.replace
    whole = recorder.record(path, QUICK, made(1), say=str)
    other = kept(whole, machine=kept(whole.machine, **{name: "9.9"}))
    other.save(path)
    with pytest.raises(ResultError, match="name another file"):
        recorder.record(path, QUICK, made(2), say=str)
    assert read(path) == other


def test_what_slows_the_process_down_comes_last() -> None:
    chosen = recorder.cases(Setting("cuda"))
    names = [case.experiment for case in chosen]
    first_launch = names.index("launches")
    assert set(names[first_launch:]) == {"launches"}
    assert set(names) == set(recorder.NAMES)
    assert len({case.key for case in chosen}) == len(chosen)
    assert sum(case.seconds for case in chosen if case.rank < 2) < 20 * 60


def run(*arguments: str, before: str) -> subprocess.CompletedProcess[str]:
    code = f"{before}\nfrom helpers.__main__ import main\n"
    code += f"import sys; sys.exit(main({list(arguments)!r}))"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture) -> None:
    assert main(["record", "--list", "--quick"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in recorder.NAMES)
    assert main(["record", "--only", "chain", "--list"]) == 1
    assert "no experiment chain: there are machine" in capsys.readouterr().err
    assert main(["record", "--quick"]) == 1
    assert "--to" in capsys.readouterr().err


def needed(*names: str) -> set[str]:
    """Return the distributions that *names* need, themselves included."""
    found, todo = set(), list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        try:
            wants = metadata.requires(name) or ()
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        plain = [w for w in wants if "extra ==" not in w]
        todo += [re.match(r"[\w.-]+", want)[0] for want in plain]
    return found


def without(modules: set[str]) -> str:
    """Return lines after which none of *modules* can be imported."""
    return textwrap.dedent(f"""
        import sys
        class Without:
            def __init__(self, finder):
                self.finder = finder
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] not in {modules!r}:
                    return self.finder.find_spec(name, path, target)
        sys.meta_path[:] = map(Without, sys.meta_path)
    """)


def test_only_torch_triton_numpy_and_matplotlib_are_needed(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    course = needed(*(re.match(r"[\w-]+", want)[0] for want in wanted))
    more = course - needed("torch", "triton", "numpy", "matplotlib")
    homes = metadata.packages_distributions().items()
    blocked = {
        module
        for module, owners in homes
        if {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & more
    }
    assert {"psutil", "platformdirs", "tqdm", "pygments", "IPython"} <= blocked
    before = without(blocked)
    before += "import helpers.gpu.recorder as r; r._PATIENCE = 100"
    path, only = tmp_path / "cpu.json", ("--only", "matmul", "--only", "machine")
    done = run("record", "--quick", "--to", str(path), *only, before=before)
    assert done.returncode == 0, done.stderr
    found = {f.experiment: f for f in read(path)}
    assert found["matmul"].status == "done", found["matmul"].message
    assert found["machine"].status in ("done", "not run")


def test_that_check_would_see_a_new_need() -> None:
    done = run("record", "--list", before=without({"triton", "torch"}))
    assert done.returncode == 1 and "No module named 'torch'" in done.stderr


def test_folders_of_the_machine_are_not_kept() -> None:
    said = 'File "/opt/venv/lib/torch/x.py", line 3: 1/2 of a/b, and /tmp/k/z.so'
    wanted = 'File "x.py", line 3: 1/2 of a/b, and z.so'
    assert recorder.anonymous(said) == wanted


def test_launches_are_told_from_kernels_and_copies() -> None:
    def event(name: str, on_gpu: bool, mine: bool = False) -> SimpleNamespace:
        where = DeviceType.CUDA if on_gpu else DeviceType.CPU
        return SimpleNamespace(name=name, device_type=where, is_user_annotation=mine)

    events = [
        event("aten::mm", False),
        event("cudaLaunchKernel", False),
        event("cudaGraphLaunch", False),
        event("cuLaunchKernelEx", False),
        event("triton_poi_fused_0", True),
        event("sm90_gemm", True),
        event("Memcpy DtoD (Device -> Device)", True),
        event("Torch-Compiled Region: 0/0", True, mine=True),
    ]
    assert counted(events) == (("kernels", 2), ("launches", 3), ("copies", 1))
    with pytest.raises(RuntimeError, match="saw no kernel"):
        counted(events[:4])


def test_what_torch_logs_about_cuda_graphs_is_collected() -> None:
    with _torch.cudagraph_log() as said:
        names = [n for n in logging.root.manager.loggerDict if "__cudagraphs" in n]
        logging.getLogger(names[0]).warning("skipping cudagraphs due to %s", "x")
    logging.getLogger(names[0]).warning("outside")
    assert said == ["skipping cudagraphs due to x"]


def test_findings_have_a_key_of_their_own() -> None:
    found = Finding("e", "s", 1, "failed", "why", None, (), (), 0.0, "")
    assert found.key == ("e", "s", 1) and found.said() == "failed: why"
