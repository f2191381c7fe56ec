"""Teaching: what a learner reads, what CI raises, and a progress file that lasts."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch

from course import moved, teach
from course.scores import score
from course.teach import (
    ClaimFailed,
    Progress,
    claim,
    lesson,
    predict,
    progress_file,
    reveal,
    start,
)
from tests.refresh import ROOT

ASK = ("01.p1", "How many graphs?", ["1 graph", "2 graphs"])


@pytest.fixture(autouse=True)
def fresh_lesson(monkeypatch):
    monkeypatch.setattr(lesson, "progress", Progress())
    lesson.begin("01")


@pytest.fixture
def said(capsys):
    return lambda: capsys.readouterr().out


# Claims.


@pytest.mark.parametrize("kind", [bool, np.bool_, lambda b: torch.tensor([b])])
def test_a_claim_holds_or_raises_in_ci(said, monkeypatch, kind):
    monkeypatch.setenv("COURSE_STRICT", "1")
    claim("one is one", kind(True))
    assert said() == "✓ holds: one is one\n"
    with pytest.raises(ClaimFailed, match=r"one is two\. numbers differ"):
        claim("one is two", kind(False), "numbers differ")
    pair = "one graph", kind(False)
    with pytest.raises(ClaimFailed, match=r"^one graph$"):  # nothing more is known
        claim(*pair)


def test_a_false_claim_tells_a_learner_what_was_claimed_and_found(said, learner):
    found = SimpleNamespace(count=3, breaks=("print", "item"))
    graphs, rows, calls, wanted = 2, [["eager", 7.5]], [], 4
    claim("one graph", found.count == graphs - 1)
    text = said()
    assert text.startswith(
        "✗ does not hold here: one graph\n"
        "  Claimed: found.count == graphs - 1\n"
        "  Found: found.count is 3\n  Found: graphs - 1 is 1\n"
    )
    assert "restart the kernel" in text and "python -m helpers doctor" in text
    assert "Why" not in text
    claim(
        "no breaks",
        found.count == 3 and len(found.breaks) == 0,  # a line of its own
        why="there is no print",
    )
    text = said()
    assert "Why it should: there is no print" in text
    assert "Found: found.count is 3" in text
    assert "Found: len(found.breaks) is 2" in text
    claim("fast", condition=rows[0][1] < 0.1 or not rows)
    assert "Found: rows[0][1] is 7.5" in said()
    claim("as wanted", calls.append(1) == wanted)
    assert calls == [1]  # and nothing is called again
    text = said()
    assert "Claimed: calls.append(1) == wanted" in text and "Found: wanted is 4" in text
    claim("equal", torch.equal(torch.ones(1), torch.zeros(wanted)))
    assert said().count("Found:") == 1  # of wanted: that torch is a module says nothing


@pytest.mark.parametrize(
    "condition",
    [
        *(None, "yes", 1, [True], lambda: False),
        *(np.array(1), np.array([True, True])),
        *(torch.tensor([True, False]), torch.tensor(1.0)),
    ],
    ids=lambda c: type(c).__name__,
)
def test_a_claim_that_cannot_fail_is_an_error(learner, condition):
    with pytest.raises(TypeError, match="claim 'this': the condition"):
        claim("this", condition)
    for nothing in ("", " ", None):
        with pytest.raises(TypeError, match="says in words"):
            claim(nothing, True)
    assert lesson.claims == {}


# Start.


ON_A_GPU = {
    "torch.cuda.is_available": lambda: True,
    "course.teach.version_of": {"torch": "any"}.get,
}


@pytest.mark.parametrize(
    ("machine", "switch", "words"),
    [
        ({"course.teach.version_of": {}.get}, "", "torch is not installed"),
        ({"shutil.which": lambda name: None}, "", "no C++ compiler was found"),
        (ON_A_GPU, "", "triton is not installed"),
        ({}, "TORCH_COMPILE_DISABLE", "TORCH_COMPILE_DISABLE=1 switches torch.comp"),
    ],
)
def test_start_names_the_first_missing_thing(said, monkeypatch, machine, switch, words):
    for target, value in machine.items():
        monkeypatch.setattr(target, value)
    monkeypatch.setenv(switch or "UNUSED", "1")
    start("01")
    text = said()
    assert text.startswith(f"Not ready: {words}")
    assert "run `python -m helpers doctor`" in text


# Predictions.


@pytest.mark.parametrize("mine", [2, "2 graphs"])
def test_a_right_guess(said, mine):
    predict(*ASK, mine=mine)
    reveal("01.p1", "2 graphs")
    assert "Your guess: 2 graphs\n" in (text := said())
    assert text.endswith("The machine says: 2 graphs\nYou said so too.\n")
    assert lesson.progress.read()["predictions"] == {
        "01.p1": {"guess": "2 graphs", "right": True}
    }
    score("01")
    assert "predictions  1 of 1 made, 1 right" in said()


@pytest.mark.parametrize("mine", [0, 3, "2", "3 graphs", "", 1.0, True, [1]])
def test_a_guess_that_is_no_option_lists_them(mine):
    with pytest.raises(ValueError, match="Write 1 for '1 graph'; 2 for '2 graphs'"):
        predict(*ASK, mine=mine)
    assert not progress_file().exists()


@pytest.mark.parametrize(
    ("key", "observed", "words"),
    [
        ("01.p1", "7 graphs", "7 graphs', which is none of the options"),
        ("01.p2", "x", "run the cell with predict('01.p2', ...) first"),
    ],
)
def test_a_reveal_that_no_option_names(said, monkeypatch, key, observed, words):
    predict(*ASK)
    monkeypatch.setenv("COURSE_STRICT", "1")
    with pytest.raises(ClaimFailed):
        reveal(key, observed)
    monkeypatch.setenv("COURSE_STRICT", "0")
    assert said().startswith("01.p1  How many graphs?")
    reveal(key, observed)
    assert words in (text := said()) and text.startswith(f"{key}: ")


def test_a_click_is_a_guess_and_may_be_repeated(said, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(teach, "watched", lambda: True)
    monkeypatch.setattr(IPython.display, "display", shown.append)
    predict(*ASK)
    assert said() == "01.p1  How many graphs?\n"  # the buttons have the options
    [box] = shown
    row, label = box.children
    assert [button.description for button in row.children] == ASK[2]
    assert label.value == "Your guess: click one"
    for button in (row.children[1], row.children[0]):
        button.click()
    assert label.value == "Your guess: 1 graph"
    assert [button.button_style for button in row.children] == ["info", ""]
    reveal("01.p1", "1 graph")
    assert said().endswith("You said so too.\n")
    predict(*ASK)  # with a guess on record, there is nothing to click
    assert "Your guess on record: 1 graph" in said() and len(shown) == 1


# The score.


def test_score_counts_this_pass_and_no_earlier_one(said, learner):
    for _ in range(2):
        lesson.begin("01")
        claim("a", True)
        claim("b", False)
        predict(*ASK)
    said()
    score("01")
    assert said() == (
        "Notebook 01\n"
        "  claims       1 of 2 hold\n"
        "  predictions  0 of 1 made, 0 right\n"
        "  exercises    0 of 2 passed\n"  # all that it has, tried or not
    )
    lesson.progress.put("exercises", "01.2", {"passed": True})
    lesson.progress.put("exercises", "02.1", {"passed": True})
    score("01")
    assert "  exercises    1 of 2 passed\n" in said()
    score("02")
    assert said().startswith('Run the first cell, start("02")')


# The progress file.


@pytest.mark.parametrize(
    "damage",
    [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"predictions": {"01.p1": 1}}'],
    ids=lambda d: repr(d[:16]),
)
def test_a_damaged_file_is_kept_aside(said, damage):
    path = progress_file()
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    predict(*ASK, mine=1)
    assert "was damaged. It is kept as" in said()
    aside = list(path.parent.glob("progress.damaged-*.json"))
    assert [file.read_bytes() for file in aside] == [damage]
    assert json.loads(path.read_text())["predictions"]["01.p1"] == {"guess": "1 graph"}


def inside_the_course(home, monkeypatch):
    inside = Path(teach.__file__).parents[1] / "progress-of-a-reader"
    monkeypatch.setenv("COURSE_HOME", str(inside))
    return inside


def damaged_and_not_to_be_moved(home, monkeypatch):
    denied = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "rename", mock.Mock(side_effect=denied))
    home.mkdir()
    (home / "progress.json").write_text("{")
    return home / "progress.json"


@pytest.mark.parametrize(
    ("obstacle", "words"),
    [
        (inside_the_course, "the folder lies inside the course"),
        (damaged_and_not_to_be_moved, "Permission denied"),
    ],
)
def test_what_cannot_be_saved_lasts_as_long_as_the_kernel(
    said, monkeypatch, course_home, obstacle, words
):
    path = obstacle(course_home, monkeypatch)
    predict(*ASK, mine=1)
    reveal("01.p1", "1 graph")
    text = said()
    assert text.count("could not be saved") == 1
    assert words in text and "set COURSE_HOME" in text
    assert text.endswith("You said so too.\n")
    assert not path.exists() or path.read_text() == "{"


def test_what_a_newer_course_wrote_stays():
    path = progress_file()
    path.parent.mkdir(parents=True)
    path.write_text(
        f'{{"badges": ["first"], "numbering": {moved.NUMBERING},'
        '"predictions": {"17.p1": {"guess": "x"}}}'
    )
    predict(*ASK, mine=1)
    found = json.loads(path.read_text())
    assert found["badges"] == ["first"]
    assert sorted(found["predictions"]) == ["01.p1", "17.p1"]


def test_a_file_with_the_numbers_of_before_keeps_its_exercises(monkeypatch):
    monkeypatch.setattr(moved, "_moved", lambda: {"exercises": {"13.1": "14.1"}})
    path = progress_file()
    path.parent.mkdir(parents=True)
    path.write_text(
        '{"exercises": {"13.1": {"passed": true}, "40.1": {"passed": true}},'
        '"predictions": {"14.p1": {"guess": "x"}}}'
    )
    lesson.progress.put("exercises", "13.1", {"passed": True})  # another one, today
    found = json.loads(path.read_text())
    assert sorted(found["exercises"]) == ["13.1", "14.1"] and not found["predictions"]


WRITE_MANY = """
import sys
from course.teach import Progress

progress, first = Progress(), int(sys.argv[1])
for number in range(first, first + 20):
    progress.put("exercises", str(number), {"passed": True})
"""


def test_two_notebooks_at_once_lose_nothing():
    command = [sys.executable, "-c", WRITE_MANY]
    both = [subprocess.Popen([*command, first], cwd=ROOT) for first in ("100", "200")]
    assert [process.wait() for process in both] == [0, 0]
    assert len(json.loads(progress_file().read_text())["exercises"]) == 40
