"""Each exercise of each notebook, tried as a learner would: stub, wrong, right.

The notebook's own cells run, in a kernel of their own: the setup cell, then those
tagged with the exercise.  So an exercise needs nothing else of its notebook, a
learner may go straight to it, and the tests take seconds.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from helpers import exercises
from helpers.record import session
from tests.form import keys, tags
from tests.refresh import ROOT, client, course_environment, notebooks, read, texts

SAMPLE = ROOT / "tests" / "sample"
STUB, NOT_YET, PASSED = "not attempted yet.", "not yet: ", "passed."


@dataclass(frozen=True)
class Variant:
    """What a test puts into the exercise cell, and what the check must print."""

    source: str
    wanted: str


@dataclass(frozen=True)
class Chapter:
    """A notebook, and the three files that belong to its exercises."""

    notebook: Path
    checks: Path
    solutions: Path
    wrong: Path

    @property
    def number(self) -> str:
        return self.notebook.name[:2]

    def tagged(self, kind: str) -> list[str]:
        """Return the exercises that have a cell tagged *kind*, in order."""
        cells = [c for c in read(self.notebook).cells if kind in tags(c)]
        return [key for cell in cells for key in keys(cell)]

    def answers(self) -> dict[str, list[str]]:
        return _cells(self.solutions)

    def mistakes(self, key: str) -> list[Variant]:
        found = _cells(self.wrong)
        return [
            Variant(source, header.split(": ", 1)[1])
            for header, sources in found.items()
            if header.startswith(f"{key}: ")
            for source in sources
        ]


def _cells(path: Path) -> dict[str, list[str]]:
    """Return the percent cells of a file: header -> sources."""
    parts = re.split(r"^# %% *(.+)\n", path.read_text(encoding="utf-8"), flags=re.M)
    found: dict[str, list[str]] = {}
    for header, source in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(header.strip(), []).append(source.strip("\n"))
    return found


def _chapter(notebook: Path, course: Path, wrong: Path) -> Chapter:
    name = f"ch{notebook.name[:2]}.py"
    return Chapter(
        notebook, course / "exercises" / name, course / "solutions" / name, wrong / name
    )


CHAPTERS = [
    *(_chapter(n, n.parent, ROOT / "tests" / "wrong") for n in notebooks()),
    *(_chapter(n, SAMPLE, SAMPLE / "wrong") for n in SAMPLE.glob("*.ipynb")),
]
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.number)


@each_chapter
def test_notebook_checks_answers_and_mistakes_name_the_same_exercises(
    chapter: Chapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(chapter.notebook.parent)
    asked = chapter.tagged("exercise")
    assert asked == chapter.tagged("check")
    assert sorted(asked) == sorted(exercises.chapter(chapter.number))
    answers = chapter.answers()
    assert sorted(asked) == sorted(answers)
    assert all(len(sources) == 1 for sources in answers.values())
    for key in asked:
        mistakes = chapter.mistakes(key)
        assert len(mistakes) >= 2, f"{key} has {len(mistakes)} wrong answers"
        messages = {mistake.wanted for mistake in mistakes}
        assert len(messages) >= 2, f"all mistakes of {key} get one message"
        assert all(len(message) >= 8 for message in messages), messages
    headers = _cells(chapter.wrong)
    assert {header.split(":")[0] for header in headers} == set(asked)


@each_chapter
def test_hints_go_from_a_nudge_to_nearly_the_answer(
    chapter: Chapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(chapter.notebook.parent)
    answers = chapter.answers()
    for key, found in exercises.chapter(chapter.number).items():
        assert len(set(found.hints)) == 3, f"{key} gives a hint twice"
        assert all(8 <= len(hint) <= 400 for hint in found.hints), key
        assert not any(answers[key][0].strip() in hint for hint in found.hints), key


@each_chapter
def test_stub_wrong_answers_and_the_answer(chapter: Chapter) -> None:
    bad = []
    with _kernel(chapter) as kernel:
        for key in chapter.tagged("exercise"):
            answer = chapter.answers()[key][0]
            # As a learner goes: untouched, then some mistakes, then the answer.
            tries = [
                Variant(_stub(chapter, key), f"{key} {STUB}"),
                *(Variant(m.source, f"{key} {NOT_YET}") for m in chapter.mistakes(key)),
                Variant(answer, f"{key} {PASSED}"),
            ]
            parts = ["", *(m.wanted for m in chapter.mistakes(key)), ""]
            for tried, part in zip(tries, parts, strict=True):
                said = _said(kernel, chapter, key, tried.source)
                if not said.startswith(tried.wanted) or part not in said:
                    bad.append(f"wanted {tried.wanted + part!r}, got {said!r}")
    assert not bad, "\n".join(bad)


@contextmanager
def _kernel(chapter: Chapter) -> Iterator[NotebookClient]:
    """Start a kernel in the notebook's folder and run the setup cell in it."""
    with course_environment():
        made = client(new_notebook(), chapter.notebook.parent)
        with made.setup_kernel():
            setup = [c for c in read(chapter.notebook).cells if "setup" in tags(c)]
            _run(made, setup[0].source)
            yield made


def _run(kernel: NotebookClient, source: str) -> str:
    """Execute *source* and return what it printed."""
    cell = new_code_cell(source)
    kernel.nb.cells.append(cell)
    kernel.execute_cell(cell, len(kernel.nb.cells) - 1)
    return "".join(text for _, text in texts(cell))


def _own(chapter: Chapter, key: str) -> list[nbformat.NotebookNode]:
    cells = [c for c in read(chapter.notebook).cells if c.cell_type == "code"]
    return [cell for cell in cells if key in keys(cell)]


def _stub(chapter: Chapter, key: str) -> str:
    return next(c.source for c in _own(chapter, key) if "exercise" in tags(c))


def _said(kernel: NotebookClient, chapter: Chapter, key: str, source: str) -> str:
    """Return what the check cell prints with *source* in the exercise cell."""
    for cell in _own(chapter, key):
        if "check" in tags(cell):
            return _run(kernel, cell.source)
        _run(kernel, source if "exercise" in tags(cell) else cell.source)
    raise AssertionError(f"{key} has no check cell after its exercise cell")


# The machinery itself, on chapters that are made up here.

CHAPTER = """
from helpers.exercises import exercise

HINTS = ("think of it", "look at it", "write it down")

@exercise("97.1", hints=HINTS, passed="Three it is.")
def three(answer):
    found = answer() if callable(answer) else answer
    if found == "assert":
        raise AssertionError("an assertion of the check")
    if found == "empty":
        return ""
    return None if found == 3 else f"{found!r} is not three"
"""


@pytest.fixture
def chapter_97(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one made-up chapter, as the current directory."""
    folder = tmp_path / "exercises"
    folder.mkdir()
    (folder / "ch97.py").write_text(CHAPTER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    session.begin("97")
    return folder


def _check(capsys: pytest.CaptureFixture[str], answer: object) -> str:
    exercises.check("97.1", answer)
    return capsys.readouterr().out


@pytest.mark.usefixtures("chapter_97", "learner")
class TestCheck:
    def test_right(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert _check(capsys, 3) == "97.1 passed. Three it is.\n"
        assert session.progress.read()["exercises"]["97.1"] == {"passed": True}

    def test_wrong_keeps_an_earlier_pass(self, capsys) -> None:
        _check(capsys, 3)
        assert _check(capsys, 4).startswith(
            "97.1 not yet: 4 is not three\nStuck? hint("
        )
        assert session.progress.read()["exercises"]["97.1"] == {"passed": True}

    def test_an_assertion_is_a_message(self, capsys) -> None:
        assert "not yet: an assertion of the check" in _check(capsys, "assert")

    @pytest.mark.parametrize("answer", [None, ..., (3, ...), [None], {"a": ...}])
    def test_values_not_filled_in(self, capsys, answer: object) -> None:
        assert _check(capsys, answer).startswith("97.1 not attempted yet.")

    @pytest.mark.parametrize(
        "body",
        [
            "raise NotImplementedError",
            'raise NotImplementedError("here")',
            '"""Doc."""\n    raise NotImplementedError',
            "...",
            '"""Doc."""',
            "pass",
            "return inner()",
        ],
    )
    def test_functions_not_filled_in(self, capsys, body: str) -> None:
        names: dict = {}
        source = f"def inner():\n    raise NotImplementedError\ndef f():\n    {body}\n"
        exec(compile(source, "<cell 1>", "exec"), names)
        assert _check(capsys, names["f"]).startswith("97.1 not attempted yet.")

    def test_a_function_that_may_raise_is_no_stub(self, capsys) -> None:
        def answer(given: bool = True) -> int:
            if not given:
                raise NotImplementedError
            return 3

        assert "passed" in _check(capsys, answer)

    def test_a_compiled_stub_is_a_stub(self) -> None:
        import torch

        def stub(x):
            raise NotImplementedError

        assert exercises.is_stub(torch.compile(stub))
        assert not exercises.is_stub(torch.compile(lambda x: x + 1))

    def test_what_an_answer_raises_is_explained_with_its_line(self, capsys) -> None:
        import linecache

        source = "def answer():\n    return 1 / 0\n"
        name = "<cell 2>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        names: dict = {}
        exec(compile(source, name, "exec"), names)
        said = _check(capsys, names["answer"])
        assert "97.1 not yet: your answer raised ZeroDivisionError: " in said
        assert "in your line: return 1 / 0" in said

    def test_a_library_that_does_not_implement_is_no_stub(self, capsys) -> None:
        def answer() -> None:
            int.from_bytes(b"", "big")
            _library()

        assert "raised NotImplementedError: no kernel" in _check(capsys, answer)

    def test_a_check_that_says_nothing_is_told_apart(self, capsys) -> None:
        assert "the check of 97.1 said '', and not in words" in _check(capsys, "empty")

    def test_unknown_names_list_the_known_ones(self, capsys) -> None:
        for key in ("97.9", "97", "x", None):
            exercises.check(key, 3)
        said = capsys.readouterr().out
        assert "There is no exercise 97.9; the known ones are 97.1" in said
        assert said.count("an exercise is named like '01.2'") == 3

    def test_a_missing_chapter_names_the_folders(self, capsys) -> None:
        exercises.check("96.1", 3)
        said = capsys.readouterr().out
        assert "there is no ch96.py in" in said
        assert "run the notebook in its own folder" in said

    def test_hints(self, capsys) -> None:
        exercises.hint("97.1", 0)
        assert capsys.readouterr().out == ""
        for level in (1, 2, 3, 4):
            exercises.hint("97.1", level)
        said = capsys.readouterr().out
        assert "Hint 1 of 3 for 97.1: think of it" in said
        assert "Hint 3 of 3 for 97.1: write it down" in said
        assert "A hint has level 1, 2 or 3" in said


def _library() -> None:
    raise NotImplementedError("no kernel for this")


def test_a_chapter_is_read_fresh(chapter_97: Path) -> None:
    assert exercises.find("97.1").passed == "Three it is."
    file = chapter_97 / "ch97.py"
    file.write_text(CHAPTER.replace("Three it is", "Yes"), encoding="utf-8")
    assert exercises.find("97.1").passed == "Yes."


def test_a_broken_chapter_says_how_to_mend_it(
    chapter_97: Path, learner, capsys
) -> None:
    (chapter_97 / "ch97.py").write_text("def (", encoding="utf-8")
    exercises.check("97.1", 3)
    assert "ch97.py cannot be used (SyntaxError" in capsys.readouterr().out


def test_an_exercise_has_three_hints(chapter_97: Path) -> None:
    text = CHAPTER.replace(', "write it down"', "")
    (chapter_97 / "ch97.py").write_text(text, encoding="utf-8")
    with pytest.raises(exercises.ExerciseError, match="exactly three hints"):
        exercises.find("97.1")


def test_strict_raises_for_a_wrong_name_and_not_for_an_answer(
    chapter_97: Path, strictly, capsys
) -> None:
    for answer in (None, 4, 3):
        exercises.check("97.1", answer)
    with pytest.raises(exercises.ExerciseError, match="known ones are"):
        exercises.check("97.2", 3)
    with pytest.raises(exercises.ExerciseError, match="has level"):
        exercises.hint("97.1", 7)


SPOILT = [  # file, what stands there, what replaces it, what must be noticed
    ("solutions/*.py", "2 * torch.sin(x)", "torch.sin(x)", "'98.1 passed.', got"),
    ("wrong/*.py", "breaks = 3", "breaks = 2", "number of graphs', got '98.2 passed"),
    ("exercises/*.py", "if found != 1:", "if found > 9:", "2 graphs', got '98.1 pass"),
    ("98_*.ipynb", "breaks = ...", "breaks = 2", "attempted yet.', got '98.2 passed"),
]


def test_the_test_of_exercises_can_fail(tmp_path: Path) -> None:
    """A wrong answer, a mistake that is right, a lax check and a solved stub."""
    whole = tmp_path / "sample"
    shutil.copytree(SAMPLE, whole)
    for pattern, old, new, _ in SPOILT:
        path = next(whole.glob(pattern))
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
    chapter = _chapter(next(whole.glob("*.ipynb")), whole, whole / "wrong")
    with pytest.raises(AssertionError) as caught:
        test_stub_wrong_answers_and_the_answer(chapter)
    noticed = str(caught.value).splitlines()
    for *_, message in SPOILT:
        assert any(message in line for line in noticed), (message, noticed)
