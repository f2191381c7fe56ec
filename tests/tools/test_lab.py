"""The reader's own copies: what they wrote stays, what they did not is renewed."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course import moved
from tests.refresh import ROOT
from tests.test_links import links
from tests.test_links import source as words
from tools import lab

COURSE, OWN = Path("a course", "notebooks"), Path("a course", "lessons")


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    """Two lessons and pages in COURSE, and the reader's copies in OWN."""
    monkeypatch.chdir(tmp_path)
    (COURSE / "figures").mkdir(parents=True)
    (COURSE / "figures" / "stack.svg").write_text("<svg/>")
    (COURSE / "glossary.md").write_text("# Glossary\n")
    for number in ("00", "01"):
        write(number, "x = 1")
    assert delivered() == []


def delivered():
    return [*lab.deliver(COURSE, OWN)]


def write(number, code):
    """Put a lesson into the course."""
    cell = new_code_cell(code, execution_count=1)
    cell.outputs = [new_output("stream", text="the answer\n")]
    whole = new_notebook(cells=[new_markdown_cell("# A lesson"), cell])
    nbformat.write(whole, COURSE / f"{number}.ipynb")


def run(number, **more):
    """Do what a reader's run does: outputs, counts and metadata, no other cells."""
    notebook = nbformat.read(OWN / f"{number}.ipynb", as_version=4)
    notebook.metadata["widgets"] = {}
    outputs = [new_output("stream", text="1")]
    notebook.cells[1].update(execution_count=3, outputs=outputs, **more)
    nbformat.write(notebook, OWN / f"{number}.ipynb")


def change(number):
    """Write something into the reader's copy of a lesson, and run it."""
    run(number, source="x = 'mine'")


def code(number):
    return nbformat.read(OWN / f"{number}.ipynb", as_version=4).cells[1].source


def test_copies_have_no_answers():
    assert (OWN / "glossary.md").read_text() == "# Glossary\n"
    assert (OWN / "figures" / "stack.svg").exists()
    assert "the answer" not in (OWN / "00.ipynb").read_text()
    assert "the answer" in (COURSE / "00.ipynb").read_text()


@pytest.mark.parametrize(
    ("source", "folded"),
    [
        ('predict("00.p1", "Which?", ["a", "b"], mine=None)', True),
        ('A = ["a"]\nA += ["b"]\nasked = (\n"?")\npredict("00.p1", asked, A)', True),
        ('def f(x):\n    return x\n\n\npredict("00.p1", "?", [])', False),
        ('half = x.bfloat16()\npredict("00.p1", "?", [])', False),
        ('predict("00.p1", "?", [])\nf(x)', False),
        ("%time f(x)", False),
    ],
)
def test_copies_fold_what_buttons_ask(source, folded):
    write("02", source)
    delivered()
    cell = nbformat.read(OWN / "02.ipynb", as_version=4).cells[1]
    assert cell.metadata == ({"jupyter": {"source_hidden": True}} if folded else {})


def test_an_update_over_lessons_untouched_run_and_changed():
    write("02", "x = 1")
    assert delivered() == []
    run("01")
    change("02")
    outputs = (OWN / "01.ipynb").read_bytes()
    assert delivered() == []
    assert (OWN / "01.ipynb").read_bytes() == outputs
    for number in ("00", "01", "02"):
        write(number, "x = 2")
    [said] = delivered()
    [new] = (path.stem for path in OWN.glob("02-new-*.ipynb"))
    assert said == f"02.ipynb has your changes and stays: the new one is {new}.ipynb"
    assert (code("01"), code("02"), code(new)) == ("x = 2", "x = 'mine'", "x = 2")
    assert delivered() == []  # said once

    change(new)
    write("02", "x = 3")
    [said] = delivered()
    assert code(said.split()[-1].removesuffix(".ipynb")) == "x = 3"
    assert code(new) == "x = 'mine'"


def test_lessons_that_the_reader_or_the_course_took_away():
    (OWN / "00.ipynb").unlink()
    change("01")
    (OWN / "01.ipynb").rename(OWN / "my own.ipynb")
    assert delivered() == [
        "00.ipynb was gone: here is a fresh one",
        "01.ipynb was gone: here is a fresh one",
    ]
    old, new = next(iter(moved.lessons().items()))
    write(old, "x = 1")
    delivered()
    for number in ("01", old):
        change(number)
    for path in COURSE.glob("*.ipynb"):
        path.unlink()
    assert delivered() == [
        "00.ipynb is no longer in the course, and was removed",
        f"{old}.ipynb is {new}.ipynb now; yours stays",
        "01.ipynb is no longer in the course; yours stays",
    ]
    left = sorted(path.name for path in OWN.glob("*.ipynb"))
    assert left == [f"{old}.ipynb", "01.ipynb", "my own.ipynb"]
    assert code("my own") == "x = 'mine'"


def test_links_of_the_copies_lead_somewhere():
    for name in ("notebooks", "data", "torch_checkup"):
        Path(name).symlink_to(ROOT / name)
    own = Path("lessons")
    assert [*lab.deliver(Path("notebooks"), own)] == []
    for page in (*own.glob("*.ipynb"), *own.glob("*.md")):
        for target in links(words(page)):
            if not urlsplit(target).scheme:
                path = unquote(target.partition("#")[0])
                assert (own / path).exists(), f"{page.name}: {target}"
        for file in re.findall(r"\bexamples/\w+\.\w+", page.read_text("utf-8")):
            assert (own / file).exists(), f"{page.name} reads {file}"
