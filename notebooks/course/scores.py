"""The last cell of a lesson: what holds, what was guessed, what was solved."""

from __future__ import annotations

from collections.abc import Iterator

from course.exercises import ExerciseError, chapter
from course.left_out import left_out
from course.teach import Entries, lesson
from helpers.text import count


def score(notebook: str) -> None:
    """Print what holds, what was guessed and what was solved in this notebook.

    Counts the claims and predictions that ran since ``start``, so run the notebook to
    the end; of exercises, all that it has.
    """
    if lesson.notebook != notebook:
        print(f'Run the first cell, start("{notebook}"), and the cells below it first.')
        return
    record = lesson.progress.read()
    asked = [record["predictions"].get(key, {}) for key in lesson.questions]
    answered = [entry for entry in asked if "right" in entry]
    right = sum(entry["right"] is True for entry in answered)
    exercises = _exercises(notebook)
    passed = sum(key in record["exercises"] for key in exercises)
    holds = sum(lesson.claims.values())
    print(f"Notebook {notebook}")
    print(f"  claims       {holds} of {len(lesson.claims)} hold")
    print(f"  predictions  {len(answered)} of {len(asked)} made, {right} right")
    print(f"  exercises    {passed} of {len(exercises)} passed")
    if left_out.cells:
        wanting = ", ".join(sorted(set(left_out.owed.values())))
        print(f"  left out     {count(left_out.cells, 'cell')}, for want of {wanting}")
    for line in _over_all(record):
        print(line)


def _exercises(notebook: str) -> set[str]:
    """Return the keys of a notebook's exercises, tried or not."""
    try:
        return set(chapter(notebook))
    except ExerciseError:  # it has none, or check has said what is wrong with them
        return set()


def _over_all(record: Entries) -> Iterator[str]:
    """Yield what is on record of all lessons, and which of them to read again."""
    revealed = {k: e["right"] for k, e in record["predictions"].items() if "right" in e}
    if not revealed and not record["exercises"]:
        return
    right, passed = sum(revealed.values()), len(record["exercises"])
    yield (
        f"All lessons so far: {right} of {count(len(revealed), 'prediction')} right, "
        f"{count(passed, 'exercise')} passed"
    )
    surprised = sorted(
        {key[:2] for key, was_right in revealed.items() if not was_right}
    )
    if surprised:
        yield f"  read again where a guess was wrong: {', '.join(surprised)}"
