"""Each condition is really there, and each way to fail is told from a pass."""

import subprocess
import sys

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.proof import hostile
from tests.proof.browser import judged as judged_in_browser
from tests.proof.hostile import CONDITIONS, CannotBe, Condition, Place
from tests.proof.visit import visit
from tests.refresh import ROOT, as_text, course_environment, read

USUAL = Condition("usual", "everywhere")


def inside(place, code):
    """Return what a Python prints in a place, or the last line of its error."""
    command = [*place.prefix, sys.executable, "-c", code]
    done = subprocess.run(
        command, env=place.environment, capture_output=True, text=True, cwd=ROOT
    )
    return (done.stdout or done.stderr).strip().split("\n")[-1]


PROBES = [  # what is missing, and how a Python notices it
    ("no triton", "import triton", "No module named 'triton'"),
    ("no C++ compiler", "import shutil; print(shutil.which('g++'))", "None"),
    ("read-only checkout", "open('data/README.md', 'a')", "Read-only file system"),
    ("an odd home folder", "import os; print(os.environ['HOME'])", "東京 и дом"),
]


@pytest.mark.skipif(sys.platform != "linux", reason="places are made with Linux tools")
@pytest.mark.parametrize(("name", "code", "wanted"), PROBES)
def test_the_place_is_as_it_says(name, code, wanted, tmp_path):
    place = Place(tmp_path)
    usual = inside(place, code)
    try:
        CONDITIONS[name].prepare(place)
    except CannotBe as why:
        pytest.skip(str(why))
    found = inside(place, code)
    assert wanted in found and found != usual


def test_a_damaged_cache_has_no_whole_file(tmp_path):
    place = Place(tmp_path)
    place.cache.mkdir()
    files = [place.cache / name for name in ("a", "b")]
    assert all(file.write_bytes(b"0123456789") for file in files)
    CONDITIONS["a damaged cache"].between(place)
    assert [file.read_bytes() for file in files] == [b"01234", b"01234\xff6789"]


def ran(*outputs):
    cell = new_code_cell("1", outputs=list(outputs), execution_count=1)
    return new_notebook(cells=[cell])


def stream(text):
    return new_output("stream", name="stdout", text=text)


def error(*lines):
    return new_output("error", ename="E", evalue="bad", traceback=list(lines))


def test_how_a_reading_went():
    stored = ran(stream("graphs: 1\n"))
    keeping = CONDITIONS["killed half way, run again"]
    for condition, output, wanted in [
        (USUAL, stream("graphs: 1\n"), ("as stored", "")),
        (USUAL, stream("graphs: 2\n"), ("prints something else", "graphs: 2")),
        (USUAL, stream("✗ does not hold here: one graph\n"), ("says what to do",)),
        (USUAL, stream("Not ready: no compiler."), ("says what to do",)),
        (USUAL, error("E: bad", "What to do: wait"), ("says what to do",)),
        (USUAL, error("E: bad"), ("bare error", "E: bad")),
        (keeping, stream("graphs: 1\n"), ("work lost",)),
        (keeping, stream("Your guess on record: one"), ("as stored", "")),
    ]:
        found = hostile.judged(condition, stored, ran(output))
        assert found[: len(wanted)] == wanted, (output, found)
    row = hostile.row(USUAL, {"01": ("as stored", ""), "05": ("bare error", "E: bad")})
    assert row["notebooks"] == "as stored: 01; bare error: 05"
    assert row["one of them said"] == "E: bad"


def test_what_a_run_in_the_browser_came_to():
    assert judged_in_browser(ran(stream("graphs: 1\n"))) == ("1 of 1", [])
    assert judged_in_browser(ran(error("E: bad"))) == ("1 of 1", ["E: bad"])
    assert judged_in_browser(ran(stream("✗ does not hold here: x\n")))[1]
    idle = ran()
    idle.cells[0].execution_count = None
    assert judged_in_browser(idle) == ("0 of 1", ["1 cells did not run, from '1'"])


@pytest.fixture
def small(tmp_path):
    sources = ['guess = "mine=None"', "first = 1", "print(first + 1, guess)"]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    path = tmp_path / "01_small.ipynb"
    path.write_text(as_text(notebook), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("how", "ended", "said"),
    [
        ("twice", "", ["2 mine=None\n", "2 mine=None\n"]),
        ("killed", "DeadKernelError", []),
    ],
)
def test_a_visit(small, how, ended, said):
    result = small.with_name("result.ipynb")
    with course_environment():
        assert visit(small, result, how) == ended
    outputs = [out for cell in read(result).cells for out in cell.outputs]
    assert [out.get("text") or out.ename for out in outputs] == said
    assert (how == "killed") == ("mine=1" in read(result).cells[0].source)
