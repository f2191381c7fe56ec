"""What another torch does otherwise is counted, explained, or makes the proof fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests import failing
from tests.proof import common, versions

SOURCES = (
    "claim('a', a)",
    "claim('b', b)\nif True:\n    claim('c', c)\nclaim('d', d)",
    "claim(\n    'e and f',\n    e,\n)\nclaimed('g')",
    "x()\nclaim('h', h)",
)
TABLE = """
[[difference]]
torch = ">=2.15"
lines = ['^claim: c$', '^stdout [-+] (old|new)$']
why = "It is known."
"""


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    path = tmp_path / "04_x.ipynb"
    cells = [new_markdown_cell("# Why?"), *map(new_code_cell, SOURCES)]
    nbformat.write(new_notebook(cells=cells), path)
    return path


Report = Callable[..., Path]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Writes the report of a run in which the given cells failed with those lines."""
    (tmp_path / "known.toml").write_text(TABLE, encoding="utf-8")
    known = failing.known(tmp_path / "known.toml")
    monkeypatch.setattr(failing, "known", lambda: known)
    monkeypatch.setattr(common, "FOLDER", tmp_path / "proofs")

    def write(skipped: str = "", **cells: list[str]) -> Path:
        cases = [f'<testcase name="{skipped}"><skipped/></testcase>' if skipped else ""]
        for cell, lines in cells.items():
            kept = "".join(f'<property name="line" value="{ln}"/>' for ln in lines)
            kept += '<property name="torch" value="2.15.0+cpu"/>'
            kept += '<property name="heading" value="Why?"/>'
            cases.append(
                f'<testcase classname="notebooks.04_x.ipynb" name="Cell {cell[1:]}">'
                f"<properties>{kept}</properties><failure/></testcase>"
            )
        path = tmp_path / "2.15.0" / "04_x.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        return path

    return write


def test_every_claim_is_found_in_order() -> None:
    assert [versions.claims(source) for source in SOURCES] == [
        ["a"],
        ["b", "c", "d"],
        ["e and f"],
        ["h"],
    ]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({}, "6 hold"),
        ({"c1": ["stdout - old"]}, "6 hold"),
        ({"c1": ["claim: c. Because"]}, "4 hold, 1 do not, 1 not reached"),
        ({"c3": ["error: NameError: x"]}, "5 hold, 1 not reached"),
        ({"c1": ["error: Timeout"], "skipped": "Cell 2"}, "2 hold, 4 not reached"),
    ],
)
def test_claims_are_judged(
    cells: dict, said: str, lesson: Path, report: Report
) -> None:
    assert versions.judged(lesson, report(**cells)) == said


def test_a_difference_is_told_in_one_line(lesson: Path, report: Report) -> None:
    lines = [
        "stdout - ───",
        "stdout - old  /home/me/x.py in a/b",
        "stdout + new",
        "stdout + newer",
    ]
    path = report(c1=lines, c2=["text/plain + more"], c3=["error: E: what"])
    rows = list(versions.rows(lesson, path, "2.15.0"))
    assert [row["wanted, got"] for row in rows] == [
        "wanted 'old … in a/b', got 'new'",
        "wanted 'nothing', got 'more'",
        "error: E: what",
    ]
    assert {row["cell"] for row in rows} == {"Why?"}
    assert {row["why"] for row in rows} == {versions.UNEXPLAINED}


@pytest.mark.parametrize(
    ("cells", "status", "said"),
    [
        ({}, 0, "explained 0, unexplained 0"),
        ({"c1": ["claim: c"], "c2": ["stdout - old"]}, 0, "explained 2, unexplained 0"),
        ({"c1": ["claim: c"], "c2": ["stdout - odd"]}, 1, "explained 1, unexplained 1"),
    ],
)
def test_the_command_fails_on_what_is_not_explained(
    cells: dict,
    status: int,
    said: str,
    lesson: Path,
    report: Report,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(versions, "torch_of", lambda python: "2.15.0")
    common.record("versions", [{"torch": "2.11.0", "notebook": "04"}])
    folder = report(**cells).parents[1]
    given = [str(lesson), "--again", "--reports", str(folder)]
    assert versions.main(given) == status
    assert f"torch 2.15.0: {said}\n" in capsys.readouterr().out
    assert versions.main(given) == status, "a second run adds nothing"
    kept = json.loads((common.FOLDER / "versions.json").read_text())["rows"]
    assert [row["torch"] for row in kept] == [
        "2.11.0",
        *["2.15.0"] * max(len(cells), 1),
    ]


def test_an_entry_that_explains_nothing_is_named(tmp_path: Path, monkeypatch) -> None:
    about = (
        '[[difference]]\ntorch = ">=2.15"\nnotebook = "04"\nlines = []\nwhy = "{}."\n'
    )
    table = about.format("old") + about.format("new").replace("2.15", "2.16")
    (tmp_path / "known.toml").write_text(table + about.format("used"))
    known = failing.known(tmp_path / "known.toml")
    monkeypatch.setattr(failing, "known", lambda: known)
    found = versions.unneeded("2.15.0", [{"why": "It is used."}, {"why": "used."}])
    assert [entry.why for entry in found] == ["old."]


def test_a_python_without_the_packages_is_told_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    folder = "Scripts" if sys.platform == "win32" else "bin"
    assert versions.main(["--python", str(bare / folder / "python")]) == 2
    assert "has no torch" in capsys.readouterr().err


def test_a_run_without_a_report_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "ROOT", tmp_path)  # where no strict.py is
    with pytest.raises(RuntimeError, match=r"could not run x\.ipynb \(.*strict\.py"):
        versions.run(
            Path(sys.executable), tmp_path / "x.ipynb", tmp_path / "r" / "x.xml"
        )
