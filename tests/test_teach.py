"""Teaching: what a learner reads, what CI raises, and a progress file that lasts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from helpers import teach
from helpers.teach import (
    ClaimFailed,
    Progress,
    claim,
    lesson,
    predict,
    progress_file,
    reveal,
    score,
    start,
    strict,
)
from helpers.text import unmark
from tests.refresh import ROOT, client, course_environment, python

ASK = ("01.p1", "How many graphs?", ["1 graph", "2 graphs"])


@pytest.fixture(autouse=True)
def fresh_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson, "progress", Progress())
    lesson.begin("01")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]):
    return lambda: capsys.readouterr().out


# Claims.


@pytest.mark.parametrize("true", [True, np.bool_(True), torch.tensor(True), 1 == 1.0])
def test_a_claim_that_holds(said, strictly, true) -> None:
    claim("one is one", true)
    assert said() == "✓ holds: one is one\n"


@pytest.mark.parametrize("false", [False, np.bool_(False), torch.tensor([False])])
def test_a_false_claim_raises_in_ci(strictly, false) -> None:
    with pytest.raises(ClaimFailed, match=r"one is two\. numbers differ") as caught:
        claim("one is two", false, "numbers differ")
    assert isinstance(caught.value, AssertionError)


def test_a_false_claim_explains_to_a_learner_and_goes_on(said, learner) -> None:
    claim("one is two", 1 == 2, "numbers differ")
    text = said()
    assert text.startswith("✗ does not hold here: one is two\n")
    assert "Why it should: numbers differ" in text
    assert "restart the kernel" in text
    assert "python -m helpers doctor" in text


class Found:
    """A result, with a property and a method that counts its calls."""

    breaks = ("print", "item")
    calls = 0

    @property
    def count(self) -> int:
        return 3

    def ask(self, wanted: int) -> bool:
        self.calls += 1
        return wanted == 0


def test_a_false_claim_shows_what_was_claimed_and_what_was_found(said, learner) -> None:
    found, graphs, rows = Found(), 2, [["eager", 7.5]]
    claim("one graph", found.count == graphs - 1)
    assert (
        "\n  Claimed: found.count == graphs - 1\n"
        "  Found: found.count is 3\n  Found: graphs - 1 is 1\n"
    ) in said()
    claim(
        "no breaks",
        found.count == 3 and len(found.breaks) == 0,  # a line of its own
        why="there is no print",
    )
    text = said()
    assert "Found: found.count is 3" in text
    assert "Found: len(found.breaks) is 2" in text
    claim("fast", condition=rows[0][1] < 0.1 or not rows)
    assert "Found: rows[0][1] is 7.5" in said()
    same = [True, False]
    claim("all", all(same)), claim("both", all(x for x in same))  # on one line
    assert said().count("Found: same is [True, False]") == 2


def test_a_false_claim_calls_nothing_again(said, learner) -> None:
    found, wanted = Found(), 4
    claim("as wanted", found.ask(wanted))
    assert found.calls == 1
    assert "Claimed: found.ask(wanted)" in (text := said())
    assert "Found: wanted is 4" in text


def test_a_claim_of_a_pair_says_at_least_that_it_is_false(strictly) -> None:
    pair = "one graph", False
    with pytest.raises(ClaimFailed, match=r"^one graph$"):
        claim(*pair)


def test_a_notebook_shows_what_was_found(monkeypatch) -> None:
    cells = [
        "from helpers import claim\ncounts = {'graphs': 3}",
        "%time counts['graphs'] += 1\nclaim('three', counts['graphs'] == 3)",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    with course_environment():
        monkeypatch.setenv("COURSE_STRICT", "0")
        client(notebook, ROOT / "notebooks").execute()
    assert "Found: counts['graphs'] is 4" in notebook.cells[1].outputs[-1].text


@pytest.mark.parametrize(
    "condition",
    [
        *(None, "yes", "", 1, 0, 2.0, [True], (), print, lambda: False),
        *(np.array(1), np.array([True, True])),
        *(torch.tensor([True, False]), torch.tensor(1.0)),
    ],
    ids=lambda c: type(c).__name__,
)
def test_a_claim_that_cannot_fail_is_an_error(learner, condition) -> None:
    with pytest.raises(TypeError, match="claim 'this': the condition"):
        claim("this", condition)
    with pytest.raises(TypeError, match="says in words"):
        claim("", True)
    assert lesson.claims == {}


@pytest.mark.parametrize(
    ("chosen", "ci", "wanted"),
    [
        *(("", "", False), ("1", "", True), ("0", "true", False)),
        *(("", "true", True), ("yes", "", True), ("", "false", False)),
    ],
)
def test_strict(monkeypatch, chosen, ci, wanted) -> None:
    monkeypatch.setenv("COURSE_STRICT", chosen)
    monkeypatch.setenv("CI", ci)
    assert strict() is wanted


# Start.


def test_start_says_what_the_notebook_runs_on(said) -> None:
    assert start("01") is None
    text = said()
    assert text.startswith(f"Ready: notebook 01 on ⟨torch {torch.__version__}, triton")
    assert unmark(text) == "Ready: notebook 01 on ⟨…⟩\n"
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("missing", "words"),
    [("torch", "torch is not installed"), ("compiler", "no C++ compiler was found")],
)
def test_start_names_the_first_missing_thing(said, monkeypatch, missing, words) -> None:
    if missing == "torch":
        monkeypatch.setattr(teach, "find_spec", lambda name: None)
    else:
        monkeypatch.setattr(teach.shutil, "which", lambda name: None)
    start("01")
    text = said()
    assert text.startswith(f"Not ready: {words}")
    assert "run `python -m helpers doctor`" in text


@pytest.mark.parametrize("switch", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"])
def test_start_says_when_compiling_is_switched_off(said, monkeypatch, switch) -> None:
    monkeypatch.setenv(switch, "0")
    start("01")
    assert said().startswith("Ready")
    monkeypatch.setenv(switch, "1")
    start("01")
    assert said().startswith(f"Not ready: {switch}=1 switches torch.compile off")


def test_start_needs_triton_where_there_is_a_gpu(said, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(teach, "find_spec", lambda name: name == "torch" or None)
    start("01")
    assert "Not ready: triton is not installed" in said()


def test_start_quietens_one_warning_and_no_other() -> None:
    code = (
        "import warnings; from helpers import start; start('01')\n"
        "warnings.warn('TensorFloat32 tensor cores for float32 matrix multiplication"
        " available but not enabled.')\n"
        "warnings.warn('something else')\n"
    )
    run = python(code)
    assert "something else" in run.stderr
    assert "TensorFloat32" not in run.stderr


# Predictions.


def test_a_prediction_without_a_guess(said, strictly) -> None:
    predict(*ASK)
    reveal("01.p1", "2 graphs")
    text = said()
    assert "01.p1  How many graphs?\n  1. 1 graph\n  2. 2 graphs\n" in text
    assert "none yet. Set mine=1 or 2, run again." in text
    assert "The machine says: 2 graphs\nNo guess on record." in text
    assert not progress_file().exists()


@pytest.mark.parametrize("mine", [2, "2 graphs", "2", " 2 "])
def test_a_right_guess(said, mine) -> None:
    predict(*ASK, mine=mine)
    reveal("01.p1", "2 graphs")
    assert "Your guess: 2 graphs\n" in (text := said())
    assert text.endswith("You said so too.\n")
    score("01")
    assert "predictions  1 of 1 made, 1 right" in said()


def test_a_wrong_guess_lasts_until_the_next_kernel(said, monkeypatch) -> None:
    predict(*ASK, mine=1)
    reveal("01.p1", "2 graphs")
    assert said().endswith("You said: 1 graph\n")
    monkeypatch.setattr(lesson, "progress", Progress())
    lesson.begin("01")
    predict(*ASK)
    assert "Your guess on record: 1 graph" in said()
    score("01")
    assert "predictions  1 of 1 made, 0 right" in said()


def test_a_guess_of_another_kernel_is_not_written_over(said, monkeypatch) -> None:
    here, there = Progress(), Progress()
    here.put("predictions", "01.p1", {"mine": "1 graph"})
    there.put("predictions", "01.p1", {"mine": "2 graphs"})
    here.put("predictions", "01.p2", {"mine": "both"})
    assert here.read()["predictions"]["01.p1"] == {"mine": "2 graphs"}


def test_a_guess_at_options_that_the_course_changed_is_forgotten(said) -> None:
    predict(*ASK, mine=1)
    predict("01.p1", "How many graphs?", ["three graphs", "4 graphs"])
    assert "none yet" in said()


@pytest.mark.parametrize("mine", [0, 3, -1, "3 graphs", "", 1.0, True, [1]])
def test_a_guess_that_is_no_option_lists_them(mine) -> None:
    with pytest.raises(ValueError, match="Write 1 for '1 graph'; 2 for '2 graphs'"):
        predict(*ASK, mine=mine)
    assert not progress_file().exists()


@pytest.mark.parametrize(
    "options", [[], ["one"], ["a", "a"], [1, 2], ["1", "2"], "ab", None]
)
def test_options_are_different_texts(options) -> None:
    with pytest.raises(ValueError, match="two or more different texts"):
        predict("01.p1", "?", options)


@pytest.mark.parametrize(("key", "observed"), [("01.p1", "7 graphs"), ("01.p2", "x")])
def test_a_reveal_that_no_option_names(said, monkeypatch, key, observed) -> None:
    predict(*ASK)
    monkeypatch.setenv("COURSE_STRICT", "1")
    with pytest.raises(ClaimFailed):
        reveal(key, observed)
    monkeypatch.setenv("COURSE_STRICT", "0")
    reveal(key, observed)
    words = {"01.p1": "none of the options", "01.p2": "first"}
    assert words[key] in said()


# The score.


def test_score_counts_this_pass_and_no_earlier_one(said, learner) -> None:
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
        "  exercises    0 of 0 passed\n"
    )


def test_score_sums_up_all_lessons_and_says_what_to_read_again(said, learner) -> None:
    for key, guess in (("01.p1", 1), ("08.p2", 2), ("03.p1", 2)):
        predict(key, *ASK[1:], mine=guess)
        reveal(key, "1 graph")
    lesson.progress.put("exercises", "01.1", {"passed": True})
    lesson.begin("03")
    said()
    score("03")
    assert said().splitlines()[-2:] == [
        "All lessons so far: 1 of 3 predictions right, 1 exercise passed",
        "  read again where a guess was wrong: 03, 08",
    ]


def test_a_click_is_a_guess_and_may_be_repeated(said, monkeypatch) -> None:
    import IPython.display

    shown: list = []
    monkeypatch.setattr(teach, "watched", lambda: True)
    monkeypatch.setattr(IPython.display, "display", shown.append)
    predict(*ASK)
    assert said() == "01.p1  How many graphs?\n"  # the buttons have the options
    [box] = shown
    row, label = box.children
    assert [button.description for button in row.children] == ASK[2]
    for button in (row.children[1], row.children[0]):
        button.click()
    assert label.value == "Your guess: 1 graph"
    reveal("01.p1", "1 graph")
    assert said().endswith("You said so too.\n")
    predict(*ASK)  # with a guess on record, there is nothing to click
    assert "Your guess on record: 1 graph" in said() and len(shown) == 1


def test_score_of_a_notebook_that_was_not_started(said) -> None:
    score("02")
    assert said().startswith('Run the first cell, start("02")')


# The progress file.


def test_nothing_lies_inside_the_course(said, monkeypatch) -> None:
    inside = Path(teach.__file__).parents[1] / "progress-of-a-reader"
    monkeypatch.setenv("COURSE_HOME", str(inside))
    predict(*ASK, mine=1)
    reveal("01.p1", "1 graph")
    text = said()
    assert text.count("could not be saved (the folder lies inside the course") == 1
    assert text.endswith("You said so too.\n")
    assert not inside.exists()


def test_the_usual_folder_is_the_platforms(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("COURSE_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = progress_file().parent
    assert folder.name == "torch-compile-course"
    if sys.platform.startswith("linux"):
        assert folder == tmp_path / "torch-compile-course"


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000),
        *(b'{"exercises": 3}', b'{"predictions": []}'),
        b'{"predictions": {"01.p1": 1}}',
    ],
    ids=lambda d: repr(d[:16]),
)
def test_a_damaged_file_is_kept_aside(said, damage) -> None:
    path = progress_file()
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    predict(*ASK, mine=1)
    assert "was damaged. It is kept as" in said()
    aside = list(path.parent.glob("progress.damaged-*.json"))
    assert [file.read_bytes() for file in aside] == [damage]
    assert json.loads(path.read_text())["predictions"]["01.p1"] == {"guess": "1 graph"}


def test_a_damaged_file_that_cannot_be_moved_is_not_overwritten(
    said, monkeypatch
) -> None:
    path = progress_file()
    path.parent.mkdir(parents=True)
    path.write_text("{")

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    predict(*ASK, mine=1)
    reveal("01.p1", "1 graph")
    assert said().count("could not be saved") == 1
    assert path.read_text() == "{"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owner here")
def test_a_folder_that_is_a_file(said, course_home: Path) -> None:
    course_home.write_text("in the way")
    predict(*ASK, mine=1)
    reveal("01.p1", "2 graphs")
    text = said()
    assert text.count("could not be saved") == 1 and "set COURSE_HOME" in text
    assert text.endswith("You said: 1 graph\n")
    assert course_home.read_text() == "in the way"


def test_what_a_newer_course_wrote_stays(said) -> None:
    path = progress_file()
    path.parent.mkdir(parents=True)
    path.write_text('{"badges": ["first"], "predictions": {"17.p1": {"guess": "x"}}}')
    predict(*ASK, mine=1)
    found = json.loads(path.read_text())
    assert found["badges"] == ["first"]
    assert sorted(found["predictions"]) == ["01.p1", "17.p1"]


WRITE_MANY = """
import sys
from helpers.teach import Progress

progress, first = Progress(), int(sys.argv[1])
for number in range(first, first + 20):
    progress.put("exercises", str(number), {"passed": True})
"""


def test_two_notebooks_at_once_lose_nothing() -> None:
    command = [sys.executable, "-c", WRITE_MANY]
    both = [subprocess.Popen([*command, first], cwd=ROOT) for first in ("100", "200")]
    assert [process.wait() for process in both] == [0, 0]
    assert len(json.loads(progress_file().read_text())["exercises"]) == 40


def test_a_read_only_record_is_no_obstacle_to_reading(said, monkeypatch) -> None:
    predict(*ASK, mine=2)
    said()

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lesson, "progress", Progress())
    monkeypatch.setattr(Path, "read_text", refuse)
    predict(*ASK)
    assert "none yet" in said()
