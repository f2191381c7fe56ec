"""Notebooks keep their form, and each rule is shown to notice a broken one."""

import copy
import runpy
from collections.abc import Callable

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.form import Lesson, measured, problems, prose, tags
from tests.refresh import (
    ROOT,
    as_text,
    deviation,
    normalised,
    notebooks,
    pages,
    read,
    unfit,
)

SOUND = notebooks()[1]
Notebook = nbformat.NotebookNode
Break = Callable[[Notebook], object]


@pytest.mark.parametrize("path", pages(), ids=lambda p: p.name)
def test_form(path):
    assert problems(Lesson(read(path), path)) == []
    assert deviation(path) is None, "run python -m tests.refresh"


# --- what breaks a notebook, and what the rule must say about it -------------------


def code(notebook, tag):
    return next(cell for cell in notebook.cells if tag in tags(cell))


def swapped(old, new):
    """Replace *old* in each source that has it; a swap that does nothing is a bug."""

    def swap(notebook):
        cells = [cell for cell in notebook.cells if old in cell.source]
        assert cells, f"the notebook has no {old!r}"
        for cell in cells:
            cell.source = cell.source.replace(old, new)

    return swap


def shown(kind, **data):
    return lambda n: code(n, "score").outputs.append(new_output(kind, **data))


def printed(text, name="stdout"):
    return shown("stream", name=name, text=text)


def words(text):
    return lambda n: n.cells[0].update(source=f"{n.cells[0].source}\n\n{text}")


def stripped(notebook):
    """nbval compares nothing where nothing is stored."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)


ERROR = {"ename": "ValueError", "evalue": "no", "traceback": ["no"]}
BROKEN = [
    ("opening", swapped("## Recap", "# Recap"), "title differs"),
    ("opening", lambda n: n.metadata.course.update(id="97"), "begin the file name"),
    ("opening", swapped("**You need**", "Needed"), "lacks"),
    ("opening", swapped(" to read", "9 to read"), "says minutes"),
    ("opening", lambda n: n.metadata.course.update(needs=["99"]), "opening needs"),
    ("first_and_last_cell", swapped('start("01")', 'start("02")'), "the setup cell"),
    ("first_and_last_cell", swapped('score("01")', 'score("02")'), "not score"),
    ("predictions", swapped('reveal("01.p1"', 'print("01.p1"'), "reveals"),
    ("predictions", swapped("mine=None", "mine=2"), "answered already"),
    ("claims", lambda n: n.cells.append(new_code_cell("claim('a', 1 < 2)")), "cannot"),
    ("claims", lambda n: n.cells.append(new_code_cell("claim('3x', f())")), "3x"),
    ("claims", lambda n: n.cells.append(new_code_cell("claim(f'{n}', n)")), "plain"),
    ("exercises", lambda n: code(n, "check").metadata.clear(), "do not pair up"),
    ("exercises", swapped("level=0", "level=1"), "the check cell of 01.1"),
    ("exercises", swapped("Exercise 01.2", "Task"), "'### Exercise 01.2"),
    ("outputs", stripped, "no outputs are stored"),
    ("outputs", shown("error", **ERROR), "an error that is not tagged"),
    ("outputs", lambda n: tags(code(n, "score")).append("raises-exception"), "a tag"),
    (
        "outputs",
        lambda n: tags(code(n, "score")).append("nbval-ignore-output"),
        "not c",
    ),
    ("outputs", printed("see /home/me/x.py"), "a path"),
    ("outputs", printed("⟨/home/me/.cache⟩"), "a path"),
    ("outputs", printed("<f at 0x7f00aa11bb22>"), "a memory address"),
    ("outputs", printed("took ⟨1.2\n3⟩"), "not closed"),
    ("outputs", printed("a line", "stderr"), "a warning in stderr"),
    ("outputs", printed("x.py:3: UserWarning: no"), "a warning in stdout"),
    ("outputs", printed("\x1b[31mred"), "a colour code"),
    ("words", words("It is 3x faster."), "3x"),
    ("words", words("![](a.png)"), "picture without"),
    ("words", shown("display_data", data={"text/html": "<img src='x'>"}), "<img>"),
    ("words", shown("display_data", data={"image/png": "iVBORw0KGgo="}), "bare"),
]


@pytest.mark.parametrize(("rule", "change", "message"), BROKEN)
def test_each_rule_can_fail(rule, change, message):
    broken = copy.deepcopy(read(SOUND))
    change(broken)
    said = [p for p in problems(Lesson(broken, SOUND)) if p.startswith(f"{rule}:")]
    assert any(message in problem for problem in said), said


FIGURES = "3x faster, a 2.5× gain, 3 times as fast, 30 % slower, 12 ms, takes 3 s"
COUNTS = "3 graphs, called 3 times, 64 x 64, 256 MiB, a 95 % interval, torch 2.13"


def test_a_figure_in_prose_is_told_from_a_count_or_a_setting():
    for figure in [*FIGURES.split(", "), "0,5 µs", "20 GB/s", "1.5 TFLOP/s"]:
        assert measured(prose(f"It is {figure}, here.")), figure
    for count in [*COUNTS.split(", "), "within 1 %", "`budget=2 s`", "[a](2 s.md)"]:
        assert not measured(prose(f"It is {count}, here.")), count


# --- the normal form --------------------------------------------------------------


def test_normal_form_leaves_nothing_of_editor_or_machine():
    sound = read(SOUND)
    dirty = copy.deepcopy(sound)
    dirty.metadata["widgets"] = {"state": {}}
    dirty.metadata["kernelspec"] = {"name": "mine", "display_name": "Mine"}
    for cell in dirty.cells:
        cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01"}
    assert as_text(normalised(dirty)) == as_text(sound)


def test_normal_form_joins_streams_and_shortens_tracebacks():
    parts = [new_output("stream", name="stdout", text=t) for t in ("a\n", "b\n")]
    frame = "\x1b[31mFile\x1b[0m /home/me/lib/python3.11/site-packages/torch/x.py:1"
    error = new_output("error", ename="E", evalue="e", traceback=[frame])
    cell = new_code_cell("x", outputs=[parts[0], error, parts[1]])
    cell.metadata["tags"] = ["raises-exception"]
    notebook = new_notebook(cells=[cell])
    notebook.cells.append(copy.deepcopy(cell))  # with the same id
    notebook = normalised(notebook)
    stream, error = notebook.cells[0].outputs
    assert stream.text == "a\nb\n"
    assert error.traceback == ["File …/torch/x.py:1"]
    assert notebook.cells[0].id != notebook.cells[1].id
    assert unfit(notebook) == []


# --- pictures that are shipped -----------------------------------------------------


def test_the_drawn_stack_is_what_its_program_draws():
    folder = ROOT / "notebooks" / "figures"
    drawn = runpy.run_path(str(folder / "stack.py"))["pictures"]()
    shipped = {path.name: path.read_text("utf-8") for path in folder.glob("*.svg")}
    assert shipped == drawn
    assert all("<title>" in text for text in drawn.values())
