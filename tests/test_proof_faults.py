"""Broken compilers are noticed: a sample of three, and the machinery itself.

All faults, and the notebook that notices each, are in data/proofs/README.md;
`python -m tests.proof faults` runs them.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.proof import common, faults
from tests.proof.broken import FAULTS, Fault, environment
from tests.proof.faults import CONTROL, around, in_order, look, probe, row
from tests.proof.notice import Notice, notices
from tests.refresh import notebooks

# Each of a different layer, in a notebook that takes seconds.
SAMPLE = {
    "partitioner saves everything": ("04", "min_cut keeps less"),
    "constant changed on the way": ("03", "the result is that of eager"),
    "in-place compile a no-op": ("01", "compiled in place, each step runs one graph"),
}


def path_of(number: str) -> Path:
    return next(path for path in notebooks() if path.stem.startswith(number))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Notice]]:
    """What the notebooks of the sample notice, with each fault and with none."""
    folder = tmp_path_factory.mktemp("caches")
    jobs: list[tuple[str, str]] = [(CONTROL, number) for number, _ in SAMPLE.values()]
    jobs += [(name, number) for name, (number, _) in SAMPLE.items()]

    def run(job: tuple[str, str]) -> list[Notice]:
        fault = FAULTS.get(job[0])
        return look(fault, [path_of(job[1])], folder, every=fault is None)

    seen: dict[str, list[Notice]] = {}
    with ThreadPoolExecutor(2) as pool:
        for (name, _), found in zip(jobs, pool.map(run, jobs), strict=True):
            seen.setdefault(name, []).extend(found)
    return seen


def test_a_compiler_that_is_not_broken_is_not_noticed(sample: dict) -> None:
    assert sample[CONTROL] == []


@pytest.mark.parametrize("name", SAMPLE)
def test_a_broken_compiler_makes_a_claim_false(name: str, sample: dict) -> None:
    number, said = SAMPLE[name]
    claims = [n for n in sample[name] if n.kind == "claim"]
    assert (claims[0].notebook, claims[0].said) == (number, said)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_says_what_it_is(name: str) -> None:
    fault = FAULTS[name]
    assert fault.meets.endswith(".") and fault.how and fault.notebooks
    assert bool(fault.patch) != bool(fault.variables)
    numbers = {path.stem[:2] for path in notebooks()}
    assert set(fault.notebooks) <= numbers
    order = [path.stem[:2] for path in in_order(fault, notebooks())]
    assert tuple(order[: len(fault.notebooks)]) == fault.notebooks
    assert set(order) == numbers


def test_the_table_is_long_enough() -> None:
    assert len(FAULTS) >= 30 and CONTROL not in FAULTS


def test_what_is_recorded_is_still_in_the_notebooks() -> None:
    """A claim that was reworded or moved needs a new run of its fault."""
    kept = common.read("faults")
    assert kept and kept["rows"]
    known = {CONTROL, *FAULTS}
    for each in kept["rows"]:
        assert each["fault"] in known
        if each["kind"] != "claim":
            continue
        path = path_of(each["noticed by"][:2])
        cell = nbformat.read(path, 4).cells[int(each["cell"].split(",")[0])]
        said = each["it said"].split(":")[0]  # of a prediction, its key
        words = " ".join(cell.source.split())
        again = f"python -m tests.proof faults --fault {each['fault']!r}"
        assert said in words, f"{path.name}: run {again}"


def _small(folder: Path, *codes: str, printed: str = "") -> Path:
    cells = [new_markdown_cell("# A title"), *map(new_code_cell, codes)]
    if printed:
        cells[-1].outputs = [nbformat.v4.new_output("stream", text=printed)]
    path = folder / "77_small.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def _toy(folder: Path) -> Fault:
    """Return a fault of a module that is no part of torch."""
    (folder / "toy.py").write_text("def answer():\n    return 42\n")

    def other_answer(toy: object) -> None:
        toy.answer = lambda: 41  # type: ignore[attr-defined]

    return Fault("toy", "Another answer.", ("77",), "", lambda: 0, "toy", other_answer)


def test_a_module_is_changed_when_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    fault = _toy(tmp_path)
    fault.plant()
    import toy

    try:
        assert toy.answer() == 41
        toy.answer = lambda: 42
        fault.plant()  # it is here already
        assert toy.answer() == 41
    finally:
        del sys.modules["toy"]


CLAIM = "from helpers import claim\nclaim('six by nine', {} == 42)"


def test_a_false_claim_an_error_and_another_output_are_told_apart(
    tmp_path: Path,
) -> None:
    path = _small(tmp_path, CLAIM.format(54), "1 / 0", "print(3)", printed="2\n")
    found = notices(path, environment(None))
    kinds = {notice.kind: notice for notice in reversed(found)}
    assert kinds["claim"].said == "six by nine" and kinds["claim"].number == 1
    assert kinds["error"].said.startswith("ZeroDivisionError")
    assert kinds["output differs"].said == "✗ does not hold here: six by nine"
    assert [n.said for n in found if n.number == 3] == ["3"]
    assert row(_toy(tmp_path), found, 1)["kind"] == "claim"
    assert {n.number for n in notices(path, environment(None), to_end=False)} == {1}


def test_a_cell_that_hangs_is_reported(tmp_path: Path) -> None:
    path = _small(tmp_path, "import time\ntime.sleep(600)", "print(3)")
    [notice] = notices(path, environment(None), patience=2)
    assert notice.kind == "no end" and notice.number == 1


def test_a_fault_that_is_not_planted_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The row says that nobody noticed, and the command fails; then it is resumed."""
    path = _small(tmp_path, CLAIM.format(42), printed="✓ holds: six by nine\n")
    idle = Fault("idle", "Nothing.", ("77",), "no patch", lambda: 0, cache="empty")
    monkeypatch.setattr(faults, "FAULTS", {"idle": idle})
    monkeypatch.setattr(faults, "notebooks", lambda: [path])
    monkeypatch.setattr(faults, "CACHES", tmp_path / "caches")
    monkeypatch.setattr(common, "FOLDER", tmp_path)
    monkeypatch.setattr(faults, "environment", lambda _: environment(None))
    assert faults.main(["--jobs", "1"]) == 1
    kept = common.read("faults")
    assert kept and [row["fault"] for row in kept["rows"]] == [CONTROL, "idle"]
    assert {row["noticed by"] for row in kept["rows"]} == {"no notebook"}
    assert "1 of 2 are as they should be\nidle" in capsys.readouterr().out
    # A reason in the table makes it an honest row; nothing runs a second time.
    known = dataclasses.replace(idle, unnoticed="it does nothing")
    monkeypatch.setattr(faults, "FAULTS", {"idle": known})
    monkeypatch.setattr(faults, "look", None)
    assert faults.main([]) == 0


def test_a_control_that_notices_something_is_reported(tmp_path: Path) -> None:
    path = _small(tmp_path, CLAIM.format(54), printed="✓ holds: six by nine\n")
    found = look(None, [path], tmp_path)
    assert not faults._as_it_should(row(None, found, 1), None)


def test_caches_hide_no_fault(tmp_path: Path) -> None:
    graph = tmp_path / "healthy" / "fxgraph" / "x"
    graph.mkdir(parents=True)
    built = tmp_path / "healthy" / "ab" / "kernel.so"
    built.parent.mkdir()
    built.write_text("built")
    place = "TORCHINDUCTOR_CACHE_DIR"

    def cache(name: str) -> Path:
        return Path(around(FAULTS[name], tmp_path, tmp_path)[place])

    assert (cache("wrong lowering") / "ab" / "kernel.so").exists()
    assert not (cache("wrong lowering") / "fxgraph").exists()
    assert not cache("no C++ compiler").exists()
    assert cache("logs silent") == tmp_path / "healthy"


def test_a_probe_sees_a_planted_fault_and_no_other(tmp_path: Path) -> None:
    fault = FAULTS["in-place compile a no-op"]
    assert probe(None, [fault.name], tmp_path) == ["1"]
    assert probe(fault, [fault.name], tmp_path) == ["0"]


def test_what_starts_without_a_fault_is_left_alone() -> None:
    import os

    code = "import sys; print('tests.proof.broken' in sys.modules)"
    command = [sys.executable, "-c", code]
    with_start = environment(FAULTS["logs silent"])
    for variables, planted in ((with_start, "True"), (dict(os.environ), "False")):
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.stdout.strip() == planted
