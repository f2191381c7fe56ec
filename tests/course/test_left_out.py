"""Without a library the cells that need it are left out, and the others run."""

import os

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from bootstrap import FIRST_IN_A_KERNEL
from course import left_out
from tests.refresh import ROOT, client, course_environment

BLOCK = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec.__func__
def find_spec(cls, name, *rest):
    return None if name.split(".")[0] == "einops" else find(cls, name, *rest)
PathFinder.find_spec = classmethod(find_spec)
"""
CELLS = [
    "rows = 'of an earlier section'",
    "from course import claim\nimport json\nimport einops\nrows = einops.parsing",
    "claim('about einops', rows == 'of an earlier section')",
    "def later():\n    return rows",
    "print(json.dumps('an import beside it'))",
    "rows = 3",
    "claim('after it', rows == 3)",
    "from course import score\nscore('77')",
]


def run(cells, **variables):
    book = new_notebook(cells=[new_code_cell(each) for each in cells])
    with course_environment():
        os.environ.update(variables)
        client(book, ROOT / "notebooks").execute()
    return ["".join(o.get("text", "") for o in c.outputs) for c in book.cells]


START = f"{FIRST_IN_A_KERNEL}\n{BLOCK}\nfrom course import start\nstart('77')"


@pytest.mark.weekly
def test_cells_are_left_out_and_the_others_run():
    _, _, missing, claimed, late, beside, again, after, score = run(
        [START, *CELLS], COURSE_STRICT="0", CI=""
    )
    assert "needs einops, which is not installed here (pip install einops)" in missing
    assert "needs `rows`, which a cell above makes with einops" in claimed
    assert late.startswith("Left out") and again == ""
    assert beside == '"an import beside it"\n' and "✓ holds: after it" in after
    assert "claims       1 of 1 hold" in score
    assert "left out     3 cells, for want of einops" in score


def caught(error):
    try:
        raise error
    except Exception as raised:
        return left_out.wanted(raised)


def test_only_the_libraries_of_practice_are_left_out(monkeypatch):
    assert caught(ModuleNotFoundError("no numpy", name="numpy")) is None
    assert caught(ValueError("einops")) is None
    assert caught(ModuleNotFoundError("", name="einops.nowhere"))[0] == "einops"
    old = ImportError("cannot import name 'Trainer'", name="transformers.trainer")
    assert "another version of transformers than 5" in caught(old)[1]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = ImportError("The Trainer with PyTorch requires `accelerate>=1.1.0`")
    told = "accelerate, which is not installed here (pip install accelerate)"
    assert caught(said) == ("accelerate", told)
