"""The proof in the browser: what it makes of cells, and of pages without a kernel.

`python -m tests.proof browser --self-test` shows the rest in JupyterLab itself.
"""

import tempfile
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.proof.browser import Visit, answered, judged, row
from tests.proof.controls import Move, move_all
from tests.proof.lab import chromium, find_browser
from tests.refresh import notebooks
from tests.test_exercises import STUB

SCORE = "claims       {} hold\n  exercises    {} passed\n"


def cell(text="", tags=(), kind="stdout", count=1):
    outputs = [new_output("stream", name=kind, text=text)] if text else []
    made = new_code_cell("the source", execution_count=count, outputs=outputs)
    made.metadata["tags"] = list(tags)
    return made


def notebook(*cells):
    return new_notebook(cells=list(cells))


CHECK, SCORED = ("check", "ex-01.1"), ("score",)
GOOD = (
    cell(f"01.1 {STUB} Fill in", CHECK),
    cell(SCORE.format("2 of 2", "0 of 1"), SCORED),
)
SOLVED = (
    cell("01.1 passed. Yes.", CHECK),
    cell(SCORE.format("2 of 2", "1 of 1"), SCORED),
)


def test_a_sound_run_has_no_fault():
    plain, solved = judged(notebook(*GOOD), False), judged(notebook(*SOLVED), True)
    assert plain.problems == solved.problems == []
    line = row("01", plain, solved)
    assert line["cells run"] == "2 of 2" and line["claims hold"] == "2 of 2"
    assert line["exercises passed"] == "1 of 1" and line["found"] == "nothing"


def error(*tags):
    made = cell(tags=tags)
    made.outputs = [new_output("error", ename="Oops", evalue="no", traceback=["no"])]
    return made


@pytest.mark.parametrize(
    ("cells", "solved", "wanted"),
    [
        ((error(),), False, "Oops: no in 'the source'"),
        ((cell(), cell(count=None), cell(count=None)), False, "2 cells did not run"),
        ((cell("careful", kind="stderr"),), False, "a warning in stderr"),
        ((cell("UserWarning: old"),), False, "a warning in stdout"),
        (GOOD[:1], True, "wanted '01.1 passed.', got '01.1 not attempted"),
        (SOLVED[:1], False, "wanted '01.1 not attempted yet.', got '01.1 passed"),
        (GOOD[1:], True, "the score counts 0 of 1"),
        ((cell(SCORE.format("1 of 2", "0 of 1"), SCORED),), False, "counts 1 of 2"),
    ],
)
def test_what_is_wrong_with_a_cell_is_said(cells, solved, wanted):
    [problem] = judged(notebook(*cells), solved).problems
    assert wanted in problem


def test_what_a_tag_announces_is_no_fault():
    shown = error("raises-exception"), cell("old", ["shows-warning"], kind="stderr")
    assert judged(notebook(*shown), False).problems == []


def test_the_row_counts_what_moved_and_what_the_console_said():
    moves = [Move("slider"), Move("list", "a list changes nothing"), Move("fold")]
    line = row("01", Visit(moves=moves, console=["console: boom"]), Visit())
    assert line["widgets that change what is shown"] == "1 of 2"
    assert line["folds that open"] == "1 of 1" and line["console errors"] == 1
    assert line["found"] == "a list changes nothing; console: boom"


def test_the_answers_go_into_a_copy():
    path = notebooks()[0]
    before = path.read_bytes()
    stubs = [
        c for c in answered(path).cells if "exercise" in c.metadata.get("tags", [])
    ]
    assert stubs and not any("NotImplementedError" in c.source for c in stubs)
    assert path.read_bytes() == before


PAGE = """<div class="jp-Cell-outputArea"><select onchange="{listens}">
<option>one</option><option>two</option></select>
<canvas width="9" height="9"></canvas><p>two</p>
<details><summary>more</summary>{folded}</details></div>"""
DRAW = "document.querySelector('canvas').getContext('2d').fillRect(0, 0, 5, 5)"
FAIL = f"{DRAW}; document.querySelector('p').textContent = 'ValueError: no'"
ONLY_WORDS = "document.querySelector('p').textContent = this.value"


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("playwright", reason="playwright is not installed")
    if find_browser() is None:
        pytest.skip("no Chromium here")
    with tempfile.TemporaryDirectory() as home, chromium(Path(home)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("listens", "folded", "wanted"),
    [
        (DRAW, "words", ["", ""]),
        ("", "words", ["changes neither picture", ""]),
        (ONLY_WORDS, "words", ["changes neither picture", ""]),  # beside a picture
        (FAIL, "words", ["ends in ValueError", ""]),
        (DRAW, "", ["", "folds nothing"]),
    ],
)
def test_what_is_moved_must_change_the_picture(browser, listens, folded, wanted):
    page = browser.new_page()
    page.set_content(PAGE.format(listens=listens, folded=folded))
    moves = move_all(page, patience=600)
    page.close()
    assert [each.control for each in moves] == ["list", "fold"]
    for move, part in zip(moves, wanted, strict=True):
        assert part in move.wrong and bool(part) == bool(move.wrong)
