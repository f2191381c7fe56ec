"""A page that is opened alone finds its course or says what is missing, and keeps
its answers behind a click."""

import os
import re
import shutil
import sys
import tarfile

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course import elsewhere
from tests.refresh import ROOT, pages, ran
from tools import alone

ASKS = 'predict("00.p1", "which?", ["a", "b"], mine=None)'
# Without the paths that this environment has to the course.
HERE = [str(ROOT), str(ROOT / "notebooks")]
ELSEWHERE = f"import sys; sys.path[:] = [p for p in sys.path if p not in {HERE}]"
TELLS = "import course, os; print(course.__file__, os.listdir('course')[:0])"


def page():
    """Return a notebook that asks, computes, reveals, and then shows something."""
    printed = new_output("stream", text="a < b\n")
    table = new_output("execute_result", {"text/plain": "1", "text/html": "<b>1</b>"})
    cells = [
        new_code_cell('start("00")', metadata={"tags": ["setup"]}),
        new_code_cell(ASKS, outputs=[printed]),
        new_code_cell("count()", outputs=[printed, table]),
        new_code_cell('reveal("00.p1", "b")', outputs=[printed]),
        new_code_cell("1 + 1", outputs=[printed]),
    ]
    return new_notebook(cells=cells)


def test_what_answers_a_prediction_lies_behind_a_click():
    stored = alone.prepared(page())
    folded = [
        ["guess first" in o.get("data", {}).get("text/html", "") for o in cell.outputs]
        for cell in stored.cells
    ]
    assert folded == [[], [], [False], [True, True], [True], [False]]
    assert "<pre>a &lt; b\n</pre>" in stored.cells[3].outputs[0]["data"]["text/html"]
    assert alone.prepared(stored) == stored  # as often as one likes
    assert [c.outputs for c in alone.plain(stored).cells] == [
        c.outputs for c in page().cells
    ]


def first_cell(address):
    """Return a program: the first cell of a page, with this address."""
    [cell] = [c for c in alone.prepared(page()).cells if c.id == alone.TAG]
    there = nbformat.read(pages()[0], as_version=4).cells
    assert cell.source in [c.source for c in there], "run python -m tools.alone"
    here = rf'address, release, keep = "{re.escape(alone.address())}"'
    with_address = f'address, release, keep = "{address}"'
    source, changed = re.subn(here, with_address, cell.source)
    assert changed == 1
    return f"{ELSEWHERE}\n{source}\n{TELLS}"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The address of a repository that has an archive of this checkout."""
    folder = tmp_path_factory.mktemp("repository") / "archive"
    folder.mkdir()
    with tarfile.open(folder / f"{alone.RELEASE}.tar.gz", "w:gz") as archive:
        for name in ("pyproject.toml", "requirements.txt", "helpers"):
            archive.add(ROOT / name, f"course-1/{name}")
        archive.add(ROOT / "notebooks" / "course", "course-1/notebooks/course")
    return folder.parent.as_uri()


def test_the_first_cell_finds_the_course_or_fetches_it_once(repository, tmp_path):
    cache = tmp_path / "cache"
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": ""}

    def run(address, status=0, folder=tmp_path, **more):
        words = sys.executable, "-P", "-c", first_cell(address)
        return ran(*words, status=status, cwd=folder, env=env | more)

    assert "can only be read: its course is not near" in run("", 1).stderr
    assert "could not be fetched" in run("file:///nowhere", 1).stderr
    said = run(repository).stdout
    assert "Fetching" in said and "is here and stays" in said
    assert str(cache) in run("file:///nowhere").stdout  # for the next page
    shutil.rmtree(cache)
    cache.write_text("no folder can be made")
    assert "is here and stays" in run(repository).stdout
    near = ROOT / "notebooks"
    assert str(ROOT) in run("", folder=near).stdout
    assert str(ROOT) in run("", JPY_SESSION_NAME=str(near / "a.ipynb")).stdout


@pytest.mark.parametrize(
    ("torch", "words"), [("2.9.1", "has torch 2.9.1, and the"), (None, "has no torch")]
)
def test_what_no_page_can_run_on_is_one_sentence(torch, words, monkeypatch):
    def version(name):
        if torch:
            return torch
        raise elsewhere.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(elsewhere.metadata, "version", version)
    with pytest.raises(elsewhere.CannotRun, match=words) as raised:
        elsewhere.get_ready(ROOT, None)
    [line] = raised.value._render_traceback_()
    assert line.count("\n") == 0 and "reading" in line
