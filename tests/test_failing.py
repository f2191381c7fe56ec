"""A strict run reports each cell that failed, and only known things are known."""

import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from helpers.results import version_of
from tests import failing
from tests.failing import Failure
from tests.proof import versions

HOLDS = "✓ holds: one is one\n"
RICH = "display({'text/plain': 'two', 'text/html': '<b>2</b>'}, raw=True)"
CELLS = (
    ("from course import claim\nclaim('one is one', 1 == 1)", HOLDS),
    ("print('⟨3 s⟩ here')", "⟨4 s⟩ here\n"),
    ("print('a\\nc')", "a\nb\n"),
    ("claim('one is two', 1 == 2, 'they rhyme')\nclaim('three', True)", HOLDS),
    ("raise ValueError('what\\nnow')", ""),
    ("print('⟨3 s⟩')", "3 s\n"),  # the marks are a fact
    (RICH, {"text/plain": "two", "text/html": "<b>3</b>"}),  # its text is compared
)
FAILED = [
    ("Cell 2", "Is it?", "stdout - b", "stdout + c"),
    ("Cell 3", "And under that", "claim: one is two. they rhyme\n  Claimed: 1 == 2"),
    ("Cell 4", "And under that", "error: ValueError: what\nnow"),
    ("Cell 5", "And under that", "stdout - 3 s", "stdout + (measured)"),
]


def test_a_strict_run_is_reported(tmp_path, capsys):
    notebook = new_notebook(cells=[new_markdown_cell("# Is it?\n\nRead on.")])
    for number, (source, stored) in enumerate(CELLS):
        if number == 3:
            notebook.cells.append(new_markdown_cell("## Below\n\n### And under that"))
        kind = {"data": stored} if isinstance(stored, dict) else {"text": stored}
        name = "display_data" if "data" in kind else "stream"
        outputs = [new_output(name, **kind)] if stored else []
        cell = new_code_cell(source, outputs=outputs, execution_count=number + 1)
        notebook.cells.append(cell)
    path, report = tmp_path / "97_is_it.ipynb", tmp_path / "report.xml"
    nbformat.write(notebook, path)
    versions.run(Path(sys.executable), path, report)

    failures = failing.read(report)
    assert {(failure.where, failure.torch) for failure in failures} == {
        ("97_is_it.ipynb", version_of("torch"))
    }
    assert [(f.cell, f.heading, *f.lines) for f in failures] == FAILED

    assert failing.main([str(report)]) == 0
    text = capsys.readouterr().out
    assert f"### 97_is_it.ipynb, torch {version_of('torch')}\n" in text
    assert "- **Cell 3**: And under that\n  - `` claim: one is two. they rh" in text
    assert "`` error: ValueError: what now ``" in text and "not listed: 0" in text


TABLE = """
[[difference]]
torch = ">=2.15"
notebook = ["03", "04"]
lines = ['^stdout - max\\(', '^stdout \\+ max2\\(', '^stdout [-+] ─+$', '^claim: x']
why = "max is spelt otherwise."

[[difference]]
torch = ">=2.14"
lines = ['^stderr \\+ W\\d+ ']
why = "A warning."

[[difference]]
triton = false
lines = ['^error: Missing: Triton']
why = "There is none."
"""
MISSING = "error: Missing: Triton is"


def failure(*lines, where="04_x.ipynb", torch="2.15.1", triton=True):
    return Failure(where, "Cell 1", "", torch, lines, triton)


BEFORE = (  # what is asked while the reference is older than the change
    (failure("stdout - max(", "stdout + max2("), "max is spelt otherwise."),
    (failure("stdout - ─", "stderr + W1 x"), "max is spelt otherwise. A warning."),
    (failure("stdout + max2(", torch="2.16.0.dev2026"), "max is spelt otherwise."),
    (failure("stdout - max(", "stdout + min("), ""),  # a line more
    (failure("stdout + max(", torch="2.14.0"), ""),
    (failure("stdout + max(", where="05_x.ipynb"), ""),
    (failure(MISSING, triton=False), "There is none."),
    (failure(MISSING), ""),
    (failure("stdout + max(", torch=""), ""),
)
AFTER = (
    (
        failure("stdout + max(", "stdout - max2(", torch="2.14.0"),
        "max is spelt otherwise.",
    ),
    (failure("stdout - max(", torch="2.14.0"), ""),  # as the new side says it
    (failure("claim: x", torch="2.14.0"), ""),  # it fell on the other side
)


@pytest.mark.parametrize(("torch", "cases"), [("2.13.0", BEFORE), ("2.15.0", AFTER)])
def test_a_difference_is_explained_when_each_of_its_lines_is(
    torch, cases, tmp_path, monkeypatch
):
    path = tmp_path / "known.toml"
    path.write_text(TABLE, encoding="utf-8")
    monkeypatch.setattr(failing, "reference", lambda: torch)
    for case, why in cases:
        assert failing.explanation(case, failing.known(path)) == why, case
