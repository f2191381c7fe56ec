"""Notebooks keep their form, and their pictures are those of their programs."""

import runpy

import pytest

from tests.form import Lesson, problems
from tests.refresh import ROOT, deviation, pages, read


@pytest.mark.parametrize("path", pages(), ids=lambda p: p.name)
def test_form(path):
    assert problems(Lesson(read(path), path)) == []
    assert deviation(path) is None, "run python -m tests.refresh"


# --- pictures that are shipped -----------------------------------------------------


def test_the_drawn_stack_is_what_its_program_draws():
    folder = ROOT / "notebooks" / "figures"
    drawn = runpy.run_path(str(folder / "stack.py"))["pictures"]()
    shipped = {path.name: path.read_text("utf-8") for path in folder.glob("*.svg")}
    assert shipped == drawn
    assert all("<title>" in text for text in drawn.values())
