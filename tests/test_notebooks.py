"""Notebooks keep their form, and their pictures are those of their programs."""

import copy
import runpy

import pytest

from tests.form import Lesson, problems
from tests.refresh import ROOT, as_text, deviation, normalised, notebooks, pages, read

SOUND = notebooks()[1]


@pytest.mark.parametrize("path", pages(), ids=lambda p: p.name)
def test_form(path):
    assert problems(Lesson(read(path), path)) == []
    assert deviation(path) is None, "run python -m tests.refresh"


# --- the normal form --------------------------------------------------------------


def test_normal_form_leaves_nothing_of_editor_or_machine():
    sound = read(SOUND)
    dirty = copy.deepcopy(sound)
    dirty.metadata["widgets"] = {"state": {}}
    dirty.metadata["kernelspec"] = {"name": "mine", "display_name": "Mine"}
    for cell in dirty.cells:
        cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01"}
    assert as_text(normalised(dirty)) == as_text(sound)


# --- pictures that are shipped -----------------------------------------------------


def test_the_drawn_stack_is_what_its_program_draws():
    folder = ROOT / "notebooks" / "figures"
    drawn = runpy.run_path(str(folder / "stack.py"))["pictures"]()
    shipped = {path.name: path.read_text("utf-8") for path in folder.glob("*.svg")}
    assert shipped == drawn
    assert all("<title>" in text for text in drawn.values())
