"""Notebooks keep their form, and each rule is shown to notice a broken one."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbval.plugin import get_sanitize_patterns

from tests.form import RULES, SETUP, Lesson, measured, problems, prose, tags
from tests.refresh import ROOT, as_text, deviation, normalised, notebooks, read, unfit

SAMPLE = next((ROOT / "tests" / "sample").glob("98_*.ipynb"))
IDS = frozenset(path.name[:2] for path in notebooks())

Notebook = nbformat.NotebookNode
Break = Callable[[Notebook], object]


@pytest.fixture(scope="module")
def sample() -> Notebook:
    return read(SAMPLE)


@pytest.mark.parametrize("path", [*notebooks(), SAMPLE], ids=lambda p: p.name)
def test_form(path: Path) -> None:
    assert problems(Lesson(read(path), path, IDS)) == []


@pytest.mark.parametrize("path", [*notebooks(), SAMPLE], ids=lambda p: p.name)
def test_normal_form(path: Path) -> None:
    assert deviation(path) is None, "run tests/refresh.py"


def test_ids_are_all_different() -> None:
    assert len(IDS) == len(notebooks())


# What breaks the sample, and what the rule must say about it.


def code(notebook: Notebook, tag: str) -> Notebook:
    return next(c for c in notebook.cells if tag in tags(c))


def words(notebook: Notebook, text: str) -> Notebook:
    found = (c for c in notebook.cells if c.cell_type == "markdown")
    return next(c for c in found if text in c.source)


def swap(notebook: Notebook, old: str, new: str) -> None:
    """Replace *old* in each source that has it; a swap that does nothing is a bug."""
    hit = [cell for cell in notebook.cells if old in cell.source]
    assert hit, f"the sample has no {old!r}"
    for cell in hit:
        cell.source = cell.source.replace(old, new)


def swapped(old: str, new: str) -> Break:
    return lambda notebook: swap(notebook, old, new)


def said(text: str) -> Break:
    """Add a sentence to the prose."""
    return swapped("A backend is a function", f"{text} A backend is a function")


def printed(text: str, name: str = "stdout") -> Break:
    """Make a cell print a line more."""
    line = new_output("stream", name=name, text=text + "\n")
    return lambda notebook: code(notebook, "score").outputs.append(line)


def shown(**data: str) -> Break:
    made = {mime.replace("_", "/"): text for mime, text in data.items()}
    output = new_output("display_data", data=made)
    return lambda notebook: code(notebook, "score").outputs.append(output)


def tagged(tag: str, *more: str) -> Break:
    return lambda n: code(n, tag).metadata["tags"].extend(more)


def ignored(count: int, reason: str = "") -> Break:
    def change(notebook: Notebook) -> None:
        shown = [c for c in notebook.cells if c.get("outputs")]
        for cell in shown[:count]:
            cell.metadata.setdefault("tags", []).append("nbval-ignore-output")
            cell.metadata["reason"] = reason

    return change


def course(**changes: object) -> Break:
    return lambda n: n.metadata.course.update(changes)


def errored(notebook: Notebook) -> None:
    error = new_output("error", ename="ValueError", evalue="no", traceback=["no"])
    code(notebook, "score").outputs.append(error)


LONG = "word " * 130
BROKEN: list[tuple[str, Break, str]] = [
    ("one_title_that_asks", swapped("look like?\n", "look like\n"), "not a question"),
    ("one_title_that_asks", swapped("## Recap", "# Recap"), "2 H1"),
    ("one_title_that_asks", course(title="Else?"), "differs from the metadata"),
    ("four_to_eight_sections", swapped("## Exercises\n", "\n"), "3 H2"),
    ("four_to_eight_sections", swapped("## Without", "#### Without"), "H4 follows"),
    ("complete_metadata", lambda n: n.metadata.pop("course"), "course metadata has"),
    ("complete_metadata", course(id="97"), "does not begin the file name"),
    ("complete_metadata", course(needs=["99"]), "no earlier notebook"),
    (
        "complete_metadata",
        course(minutes={"read": 0, "run": 1, "exercise": 5}),
        "between 1 and 60",
    ),
    ("says_what_it_asks_and_gives", swapped("**You need**", "Needed"), "lacks"),
    ("says_what_it_asks_and_gives", swapped("5 to read", "9 to read"), "says minutes"),
    ("says_what_it_asks_and_gives", swapped("## Recap", "## End"), "not Recap"),
    (
        "readable_size",
        lambda n: n.cells.pop(4) and n.cells.__delitem__(slice(4, 9)),
        "cells",
    ),
    ("readable_size", said(LONG), "words, at most 120"),
    ("readable_size", swapped("graphs = []", "graphs = []\n" * 26), "lines of code"),
    ("readable_size", swapped("graphs = []", "graphs = []" + " " * 70), "79 columns"),
    (
        "two_code_cells_in_a_row",
        lambda n: [
            n.cells.remove(words(n, t)) for t in ("A backend is", "will arrive")
        ],
        "three code cells",
    ),
    ("the_setup_cell", swapped("import torch\n\nfrom", "import os\n\nfrom"), "differs"),
    ("the_setup_cell", lambda n: code(n, "setup").metadata.clear(), "tagged setup"),
    ("the_score_cell", swapped('score("98")', 'score("97")'), "the score cell is not"),
    ("the_score_cell", tagged("setup", "score"), "the last code cell"),
    (
        "two_predictions",
        swapped('predict(\n    "98.p2"', 'print(\n    "98.p2"'),
        "least 2",
    ),
    ("two_predictions", swapped('reveal("98.p2"', 'reveal("98.p1"'), "reveals"),
    ("two_predictions", swapped("98.p2", "second"), "is named 'second'"),
    ("two_predictions", swapped("mine=None", "mine=2"), "answered already"),
    ("four_claims_that_can_fail", swapped("claim(\n", "print(\n"), "at least 4"),
    (
        "four_claims_that_can_fail",
        swapped("len(graphs) == 2)", "2 == 2)"),
        "cannot fail",
    ),
    ("four_claims_that_can_fail", swapped("len(ops) == 2)", "True)"), "cannot fail"),
    (
        "four_claims_that_can_fail",
        swapped("the result did not change", "both operations are in one graph"),
        "the same claim twice",
    ),
    ("four_claims_that_can_fail", swapped('in one graph"', 'now 3x faster"'), "3x"),
    ("two_exercises", lambda n: code(n, "check").metadata.clear(), "do not pair up"),
    ("two_exercises", swapped("level=0", "level=1"), "the check cell of 98.1"),
    ("two_exercises", swapped("Exercise 98.2", "Task"), "'### Exercise 98.2"),
    ("two_exercises", swapped(" (1 of 5, 2 minutes)", ""), "'### Exercise 98.2"),
    ("known_tags", tagged("score", "ex-97.1"), "ex-97.1"),
    ("known_tags", tagged("score", "nbval-skip"), "nbval-skip"),
    (
        "executed_in_order",
        lambda n: code(n, "score").update(execution_count=None),
        "not all executed",
    ),
    ("executed_in_order", errored, "a stored error"),
    ("executed_in_order", tagged("score", "raises-exception"), "raised nothing"),
    (
        "executed_in_order",
        lambda n: [c.update(outputs=[]) for c in n.cells if c.cell_type == "code"],
        "no outputs are stored",
    ),
    ("compared_to_the_letter", ignored(1), "without a reason"),
    ("compared_to_the_letter", ignored(9, "it prints dates"), "are not compared"),
    (
        "compared_to_the_letter",
        lambda n: code(n, "score").metadata.update(reason="it prints dates"),
        "the cell is compared",
    ),
    (
        "compared_to_the_letter",
        swapped("graphs.clear()", "# NBVAL_IGNORE_OUTPUT\ngraphs.clear()"),
        "a comment steers",
    ),
    ("runs_the_same_everywhere", swapped("print(ops)", "Out[1]"), "Out"),
    (
        "runs_the_same_everywhere",
        swapped('did not change", same)', 'did", 1);'),
        "semicolon",
    ),
    ("nothing_measured_is_typed", said("It is 3x faster."), "3x"),
    ("plain_words", said("It simply works."), "simply"),
    ("pictures_in_words", said("![](a.png)"), "picture without"),
    ("pictures_in_words", said('<img src="a.png" alt="">'), "<img> without"),
    ("pictures_in_words", shown(text_html='<img src="data:x">'), "<img> without"),
    ("pictures_in_words", shown(image_png="iVBORw0KGgo="), "a bare picture"),
    ("fit_outputs", printed("see /home/me/x.py"), "a path"),
    ("fit_outputs", printed("⟨/home/me/.cache⟩"), "a path"),
    ("fit_outputs", printed("/tmp/ipykernel_12/34.py"), "a path"),
    ("fit_outputs", printed("<f at 0x7f00aa11bb22>"), "a memory address"),
    ("fit_outputs", printed("took ⟨1.2\n3⟩"), "not closed"),
    ("fit_outputs", printed("a line", "stderr"), "a warning in stderr"),
    ("fit_outputs", printed("x.py:3: UserWarning: no"), "a warning in stdout"),
    ("fit_outputs", printed("\x1b[31mred"), "a colour code"),
    ("fit_outputs", shown(text_html="<b>C:\\Users\\me</b>"), "a path"),
]


@pytest.mark.parametrize(("rule", "change", "message"), BROKEN)
def test_each_rule_can_fail(
    sample: Notebook, rule: str, change: Break, message: str
) -> None:
    broken = copy.deepcopy(sample)
    change(broken)
    found = [p for p in problems(Lesson(broken, SAMPLE)) if p.startswith(rule + ":")]
    assert any(message in problem for problem in found), found


def test_every_rule_was_shown_to_fail() -> None:
    assert {rule for rule, _, _ in BROKEN} == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    "figure",
    [
        "3x faster",
        "a 2.5× gain",
        "1.87x",
        "3 times as fast",
        "30 % slower",
        "12 ms",
        "0,5 µs",
        "takes 3 s",
        "4 seconds",
        "20 GB/s",
        "3 GiB/s",
        "1.5 TFLOP/s",
        "7 milliseconds",
    ],
)
def test_a_figure_in_prose_is_noticed(figure: str) -> None:
    assert measured(prose(f"It is {figure}, here."))


@pytest.mark.parametrize(
    "count",
    [
        "3 graphs",
        "called 3 times",
        "64 x 64",
        "1024x1024",
        "256 MiB",
        "a 95 % interval",
        "torch 2.13",
        "within 1 %",
        "`budget=2 s`",
        "8 steps",
        "float32",
        "2 cores",
        "[here](2 s.md)",
    ],
)
def test_a_count_or_a_setting_is_not(count: str) -> None:
    assert not measured(prose(f"It is {count}, here."))


# The normal form.


def test_normal_form_leaves_nothing_of_editor_or_machine(sample: Notebook) -> None:
    dirty = copy.deepcopy(sample)
    dirty.metadata["widgets"] = {"state": {}}
    dirty.metadata["kernelspec"] = {"name": "mine", "display_name": "Mine"}
    dirty.metadata["language_info"] = {"name": "python", "version": "3.12.1"}
    for number, cell in enumerate(dirty.cells):
        cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01"}
        cell.metadata["collapsed"] = False
        if cell.cell_type == "code":
            cell.execution_count = number + 100
    assert as_text(normalised(dirty)) == as_text(sample)


def test_normal_form_is_stable(sample: Notebook) -> None:
    once = as_text(normalised(sample))
    assert as_text(normalised(nbformat.reads(once, as_version=4))) == once


def test_normal_form_joins_streams_and_shortens_tracebacks() -> None:
    parts = [new_output("stream", name="stdout", text=t) for t in ("a\n", "b\n")]
    frame = (
        "\x1b[31mFile\x1b[0m /home/me/.venv/lib/python3.11/site-packages/torch/x.py:1"
    )
    error = new_output("error", ename="E", evalue="e", traceback=[frame])
    cell = new_code_cell("x", outputs=[parts[0], error, parts[1]], execution_count=7)
    cell.metadata["tags"] = ["raises-exception"]
    notebook = normalised(nbformat.v4.new_notebook(cells=[cell]))
    stream, error = notebook.cells[0].outputs
    assert stream.text == "a\nb\n"
    assert error.traceback == ["File …/torch/x.py:1"]
    assert notebook.cells[0].execution_count == 1
    assert unfit(notebook) == []


def test_ids_are_made_from_words_and_never_twice() -> None:
    cells = [new_markdown_cell("# One title"), new_markdown_cell("# One title")]
    cells[0]["id"] = cells[1]["id"] = "same"
    notebook = nbformat.v4.new_notebook()
    notebook.cells = cells
    made = normalised(notebook)
    assert [cell["id"] for cell in made.cells] == ["same", "one-title"]


# Strict comparison.


def test_one_sanitize_rule() -> None:
    text = (ROOT / "tests" / "sanitize.cfg").read_text(encoding="ascii")
    assert len(get_sanitize_patterns(text)) == text.count("\nregex:") == 1


MARKED = 'print(f"graphs: 2, took ⟨{3}.0 ms⟩")'
TEXT = "graphs: 2, took ⟨3.0 ms⟩\n"
STRICT = {
    "as_stored": (TEXT, 0),
    "other_value_in_marks": (TEXT.replace("3.0 ms", "417.25 s"), 0),
    "other_digit_outside": (TEXT.replace("graphs: 2", "graphs: 3"), 1),
    "other_words": (TEXT.replace("took", "takes"), 1),
    "mark_left_out": (TEXT.replace("⟨3.0 ms⟩", "3.0 ms"), 1),
    "line_more": (TEXT + "done\n", 1),
}


def _stored(folder: Path, name: str, source: str, text: str, **data: str) -> None:
    outputs = [new_output("stream", text=text)] if text else []
    if data:
        made = {mime.replace("_", "/"): value for mime, value in data.items()}
        outputs.append(new_output("display_data", data=made))
    cell = new_code_cell(source, outputs=outputs, execution_count=1)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / f"{name}.ipynb")


def test_strict_comparison_notices_facts_and_only_facts(tmp_path: Path) -> None:
    """Tiny notebooks that differ in one thing each, and the sample, which differs
    in nothing."""
    for name, (text, _) in STRICT.items():
        _stored(tmp_path, name, MARKED, text)
    rich = (
        "from IPython.display import display\n"
        "display({'text/plain': 'two', 'text/html': '<b>%s</b>'}, raw=True)"
    )
    _stored(tmp_path, "html_differs", rich % 2, "", text_plain="two", text_html="3")
    _stored(tmp_path, "plain_differs", rich % 2, "", text_plain="three", text_html="2")
    claim = "from helpers import claim\nclaim('one is two', 1 == 2)"
    _stored(tmp_path, "false_claim", claim, "✓ holds: one is two\n")
    wanted = {name: code for name, (_, code) in STRICT.items()}
    wanted |= {"html_differs": 0, "plain_differs": 1, "false_claim": 1, SAMPLE.stem: 0}
    script = str(ROOT / "tests" / "strict.py")

    run = subprocess.run(
        [sys.executable, script, str(tmp_path), str(SAMPLE), "-rA"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )

    lines = [
        ln for ln in run.stdout.splitlines() if ln.startswith(("PASSED", "FAILED"))
    ]
    found = {
        name: max(int("FAILED" in line) for line in lines if f"{name}.ipynb" in line)
        for name in wanted
    }
    assert found == wanted
    assert run.returncode == 1


def test_a_stripped_notebook_is_refused(sample: Notebook) -> None:
    """nbval compares nothing where nothing is stored, so the form must notice."""
    stripped = copy.deepcopy(sample)
    for cell in stripped.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    assert any("executed_in_order" in p for p in problems(Lesson(stripped, SAMPLE)))


def test_setup_cell_is_that_of_the_sample(sample: Notebook) -> None:
    assert code(sample, "setup").source == SETUP.format(id="98")
