"""What the machine or the order of cells caused is explained below the traceback."""

import sys
import types

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from course import cell_errors
from helpers import _torch
from helpers.errors import Unavailable
from tests.refresh import ROOT, client, course_environment


def raised(error, cause=None):
    try:
        raise error from cause
    except type(error) as caught:
        return caught


NOT_COMPILED = "Detected recompile when torch.compile stance is 'fail_on_recompile'"
OUT_OF_MEMORY = "[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"
CAUSED_BY_THE_MACHINE = [
    (NameError("name 'predict' is not defined", name="predict"), "'predict'"),
    (ModuleNotFoundError("No module named 'triton'"), "Triton is missing"),
    (Unavailable("Triton is not installed"), "names what is missing"),
    (RuntimeError(OUT_OF_MEMORY), "memory ran out"),
    (MemoryError(), "memory ran out"),
    (RuntimeError(NOT_COMPILED), "a cell above that failed"),
    (OSError(28, "No space left on device"), "the disk is full"),
    (OSError(30, "Read-only file system"), "TORCHINDUCTOR_CACHE_DIR"),
    (PermissionError(13, "Permission denied"), "TORCHINDUCTOR_CACHE_DIR"),
    (ImportError("k.so: file too short"), "may be damaged"),
    (RuntimeError("Failed to import cache/ng/cng4.py\nSyntaxError: "), "be damaged"),
    (EOFError("no input"), f"delete the folder {_torch.inductor_cache_dir()}"),
]


@pytest.mark.parametrize(("error", "advice"), CAUSED_BY_THE_MACHINE)
def test_what_the_machine_causes_has_an_answer(error, advice):
    assert advice in cell_errors.what_to_do(raised(error))
    outer = raised(RuntimeError("a kernel"), error)
    assert advice in cell_errors.what_to_do(outer)
    outer.__context__, outer.__cause__ = error, None  # raise ... from None
    assert outer.__suppress_context__ and cell_errors.what_to_do(outer) is None


BROKEN_CELL = "found = int('one')\nwidth = 3"
CELLS = ["", "1 / 0", BROKEN_CELL, "rows = width * 2", "lost = ("]
CELLS += ["twice = start * 2"]
NOT_RUN = (
    "where a cell above defines 'gone', it has not run: choose Run > Run All Above "
    "Selected Cell, then this cell again"
)
LINES = {2: "found = int('one')", 3: "rows = width * 2", 4: "lost = ("}


@pytest.mark.parametrize(
    ("name", "known", "number"),
    [
        ("width", [], 2),
        ("rows", [], 2),  # not cell 3, which only lacked a name itself
        ("rows", ["width"], 3),  # mended, and cell 3 has not run again
        ("lost", [], 4),  # of what is no Python, any word may be one
        ("gone", [], None),
        ("twice", [], None),  # cell 5 is not to blame: what it lacks, no cell made
    ],
)
def test_the_cell_that_owes_a_name_is_told(name, known, number, monkeypatch):
    for each in known:
        monkeypatch.setattr(sys.modules["__main__"], each, 3, raising=False)
    user_ns = {"In": [*CELLS, f"{name} = {name} + 1"], "torch": None}
    shell = types.SimpleNamespace(user_ns=user_ns, user_ns_hidden={"In": []})
    monkeypatch.setattr("helpers.text.kernel_shell", lambda: shell)
    told = cell_errors.what_to_do(NameError(f"name '{name}' is not defined", name=name))
    mend = (
        f"cell [{number}], `{LINES.get(number)}`, failed before it could define "
        f"'{name}': mend that cell first, then run it and the cells below it"
    )
    assert told == (mend if number else NOT_RUN.replace("gone", name))
    shell.user_ns_hidden = shell.user_ns  # nothing of a cell's is known
    told = cell_errors.what_to_do(NameError(f"name '{name}' is not defined", name=name))
    assert told.startswith("this kernel knows nothing of the cells above")


@pytest.mark.weekly
def test_a_kernel_says_below_the_traceback_what_helps():
    cell_errors.explain_errors()  # outside a notebook: nothing
    first = 'from course import start\nstart("01")'
    sources = [first, "1 / 0", BROKEN_CELL, "width + 1", "gone + 1", "gone + 1"]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    with course_environment():
        runner = client(notebook, ROOT / "notebooks")
        runner.allow_errors = True
        runner.execute()
    shown = [""]  # below each cell, by its number
    for cell in notebook.cells:
        traces = (output.get("traceback", ()) for output in cell.outputs)
        shown.append("\n".join(line for trace in traces for line in trace))
    assert "ZeroDivisionError" in shown[2] and "What to do" not in shown[2]
    assert "NameError" in shown[4] and "What to do: cell [3], `found = int(" in shown[4]
    for number in (5, 6):
        assert shown[number].count("What to do: where a cell above defines 'gone'") == 1
