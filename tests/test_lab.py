"""The reader's own copies: what they wrote stays, what they did not is renewed."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.refresh import ROOT
from tests.test_links import links
from tests.test_links import source as words
from tools import lab
from tools.lab import deliver


@pytest.fixture
def course(tmp_path: Path) -> Path:
    folder = tmp_path / "a course" / "notebooks"
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "stack.svg").write_text("<svg/>")
    (folder / "glossary.md").write_text("# Glossary\n")
    for number in ("00", "01"):
        lesson(folder, number, "x = 1")
    return folder


def lesson(folder: Path, number: str, code: str) -> None:
    cell = new_code_cell(code, execution_count=1)
    cell.outputs = [new_output("stream", text="the answer\n")]
    whole = new_notebook(cells=[new_markdown_cell("# A lesson"), cell])
    nbformat.write(whole, folder / f"{number}_a_lesson.ipynb")


def run(path: Path) -> None:
    """Do what a reader's run does: outputs, counts and metadata, no other cells."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["widgets"] = {}
    notebook.cells[1].update(
        execution_count=3, outputs=[new_output("stream", text="1")]
    )
    nbformat.write(notebook, path)


def change(path: Path, code: str = "x = 'mine'") -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].source = code
    nbformat.write(notebook, path)


def code(path: Path) -> str:
    return nbformat.read(path, as_version=4).cells[1].source


def test_copies_have_no_answers(course: Path) -> None:
    own = course.parent / "lessons"
    assert [*deliver(course, own)] == []
    assert (own / "glossary.md").read_text() == "# Glossary\n"
    assert (own / "figures" / "stack.svg").exists()
    [first, second] = sorted(own.glob("*.ipynb"))
    assert "the answer" not in first.read_text() + second.read_text()
    assert "the answer" in (course / first.name).read_text()


def test_an_update_over_lessons_untouched_run_and_changed(course: Path) -> None:
    own = course.parent / "lessons"
    lesson(course, "02", "x = 1")
    assert [*deliver(course, own)] == []
    for act, number in ((run, "01"), (change, "02")):
        act(own / f"{number}_a_lesson.ipynb")
    for number in ("00", "01", "02"):
        lesson(course, number, "x = 2")
    assert [*deliver(course, own)] == [
        "00_a_lesson.ipynb was renewed",
        "01_a_lesson.ipynb was renewed",
        "02_a_lesson.ipynb has your changes and stays: the new one is "
        "02_a_lesson-new.ipynb",
    ]
    assert code(own / "01_a_lesson.ipynb") == "x = 2"
    assert code(own / "02_a_lesson.ipynb") == "x = 'mine'"
    assert code(own / "02_a_lesson-new.ipynb") == "x = 2"
    assert [*deliver(course, own)] == []  # said once

    change(own / "02_a_lesson-new.ipynb")
    lesson(course, "02", "x = 3")
    [line] = deliver(course, own)
    assert "02_a_lesson-new-2.ipynb" in line
    assert code(own / "02_a_lesson-new.ipynb") == "x = 'mine'"


def test_outputs_of_the_reader_stay_where_nothing_changed(course: Path) -> None:
    own = course.parent / "lessons"
    [*deliver(course, own)]
    run(own / "01_a_lesson.ipynb")
    before = (own / "01_a_lesson.ipynb").read_bytes()
    assert [*deliver(course, own)] == []
    assert (own / "01_a_lesson.ipynb").read_bytes() == before


def test_lessons_deleted_or_renamed_by_the_reader(course: Path) -> None:
    own = course.parent / "lessons"
    [*deliver(course, own)]
    (own / "00_a_lesson.ipynb").unlink()
    change(own / "01_a_lesson.ipynb")
    (own / "01_a_lesson.ipynb").rename(own / "my own.ipynb")
    assert [*deliver(course, own)] == [
        "00_a_lesson.ipynb was gone: here is a fresh one",
        "01_a_lesson.ipynb was gone: here is a fresh one",
    ]
    assert code(own / "my own.ipynb") == "x = 'mine'"


def test_lessons_that_the_course_no_longer_has(course: Path) -> None:
    own = course.parent / "lessons"
    [*deliver(course, own)]
    change(own / "01_a_lesson.ipynb")
    for path in course.glob("*.ipynb"):
        path.unlink()
    assert [*deliver(course, own)] == [
        "00_a_lesson.ipynb is no longer in the course, and was removed",
        "01_a_lesson.ipynb is no longer in the course; yours stays",
    ]
    assert [path.name for path in own.glob("*.ipynb")] == ["01_a_lesson.ipynb"]


@pytest.mark.parametrize("damage", ["", "[1]", '{"00_a_lesson.ipynb": 3', None])
def test_without_the_record_whatever_differs_is_the_readers(
    course: Path, damage: str | None
) -> None:
    own = course.parent / "lessons"
    [*deliver(course, own)]
    if damage is None:
        (own / lab.RECORD).unlink()
    else:
        (own / lab.RECORD).write_text(damage)
    change(own / "00_a_lesson.ipynb")
    (own / "01_a_lesson.ipynb").write_text("{ not a notebook")
    lines = [*deliver(course, own)]
    assert [line.partition(":")[0] for line in lines] == [
        "00_a_lesson.ipynb has your changes and stays",
        "01_a_lesson.ipynb has your changes and stays",
    ]
    assert code(own / "00_a_lesson.ipynb") == "x = 'mine'"
    assert (own / "01_a_lesson.ipynb").read_text() == "{ not a notebook"


def test_a_full_disk_in_the_middle_loses_nothing(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    own = course.parent / "lessons"
    monkeypatch.setattr(lab, "ROOT", course.parent)
    started = []
    monkeypatch.setattr(lab, "serve", started.append)
    [*deliver(course, own)]
    for number in ("00", "01"):
        change(own / f"{number}_a_lesson.ipynb")
        lesson(course, number, "x = 2")
    usual = lab.write_atomically

    def full(path: Path, text: str) -> Path:
        if path.name.startswith("01"):
            raise OSError(28, "cannot write 01: No space left on device")
        return usual(path, text)

    monkeypatch.setattr(lab, "write_atomically", full)
    lab.main([])
    assert "No space left" in capsys.readouterr().err
    assert started, "JupyterLab opens what is there"
    assert code(own / "01_a_lesson.ipynb") == "x = 'mine'"
    monkeypatch.setattr(lab, "write_atomically", usual)
    assert [line[:2] for line in deliver(course, own)] == ["01"]


def test_links_of_the_copies_lead_somewhere(tmp_path: Path) -> None:
    for name in ("notebooks", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    own = tmp_path / "lessons"
    assert [*deliver(tmp_path / "notebooks", own)] == []
    for page in (*own.glob("*.ipynb"), *own.glob("*.md")):
        for target in links(words(page)):
            if not urlsplit(target).scheme:
                path = unquote(target.partition("#")[0])
                assert (own / path).exists(), f"{page.name}: {target}"


def test_jupyterlab_opens_the_table_of_contents_and_then_what_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    told = lab.options("00_a_lesson.ipynb")
    assert "--LabApp.default_url=/lab/workspaces/course" in told
    [space] = (tmp_path / ".cache" / "lab" / "space").glob("course*")
    layout = json.loads(space.read_text())["data"]["layout-restorer:data"]
    assert layout["left"]["current"] == "@jupyterlab/toc:plugin"
    assert layout["main"]["current"] == "notebook:lessons/00_a_lesson.ipynb"
    space.write_text("the reader's")
    lab.options("00_a_lesson.ipynb")
    assert space.read_text() == "the reader's"
