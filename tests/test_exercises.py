"""Each exercise of each notebook, tried as learners would: stub, wrong, trick, right.

``tests/wrong/ch01.py`` has honest mistakes, ``tests/tricks/ch01.py`` what a lazy and
clever learner tries: a header ``01.1: part of the message`` is a trick that must
fail with that message, and ``01.1 also: how it differs`` another correct answer.
Blank answers, and answers that raise, are made from the stub itself.

The notebook's own cells run, in a kernel of their own: the setup cell, then those
tagged with the exercise.  So an exercise needs nothing else of its notebook, a
learner may go straight to it, and the tests take seconds.
"""

from __future__ import annotations

import ast
import math
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from helpers import exercises
from helpers.teach import session
from tests.form import keys, tags
from tests.refresh import ROOT, client, course_environment, notebooks, read, texts

SAMPLE = ROOT / "tests" / "sample"
STUB, NOT_YET, PASSED = "not attempted yet.", "not yet: ", "passed."


@dataclass(frozen=True)
class Variant:
    """What a test puts into the exercise cell, and what the check must print."""

    kind: str
    source: str
    begins: str
    part: str = ""
    never: str = "Traceback"

    def fault(self, said: str) -> str | None:
        """Return what is wrong with what the check printed, or None."""
        right = said.startswith(self.begins) and self.part in said
        if right and not re.search(self.never, said):
            return None
        return f"{self.kind}: wanted {self.begins + self.part!r}, got {said!r}"


@dataclass(frozen=True)
class Chapter:
    """A notebook, and the files that belong to its exercises."""

    notebook: Path
    checks: Path
    solutions: Path
    wrong: Path
    tricks: Path

    @property
    def number(self) -> str:
        return self.notebook.name[:2]

    def tagged(self, kind: str) -> list[str]:
        """Return the exercises that have a cell tagged *kind*, in order."""
        cells = [c for c in read(self.notebook).cells if kind in tags(c)]
        return [key for cell in cells for key in keys(cell)]

    def answers(self) -> dict[str, list[str]]:
        return _cells(self.solutions)

    def failing(self, key: str, kind: str) -> list[Variant]:
        """Return the cells of tests/wrong or tests/tricks, which must not pass."""
        path = {"wrong": self.wrong, "trick": self.tricks}[kind]
        begins = f"{key} {NOT_YET}"
        return [
            Variant(kind, source, begins, header.split(": ", 1)[1])
            for header, sources in _cells(path).items()
            if header.startswith(f"{key}: ")
            for source in sources
        ]

    def others(self, key: str) -> list[Variant]:
        """Return correct answers that are not ours."""
        found = _cells(self.tricks).items()
        sources = [
            s for header, some in found for s in some if f"{key} also: " in header
        ]
        return [Variant("also", source, f"{key} {PASSED}") for source in sources]

    def tries(self, key: str) -> Iterator[Variant]:
        """Yield all that is tried, as a learner goes: at last, the answer."""
        stub = _stub(self, key)
        yield Variant("stub", stub, f"{key} {STUB}")
        yield from _blank(key, stub)
        yield from _raising(key, stub)
        yield from self.failing(key, "wrong")
        yield from self.failing(key, "trick")
        yield from self.others(key)
        yield Variant("answer", self.answers()[key][0], f"{key} {PASSED}")


def _filled(stub: str, body: str, value: str) -> str:
    """Return the stub with *body* in its functions and *value* for what is left out."""
    tree = ast.parse(stub)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _unwritten(node.body[-1]):
            node.body[-1:] = ast.parse(body).body
        elif isinstance(node, ast.Assign) and ast.unparse(node.value) == "...":
            node.value = ast.parse(value, mode="eval").body
    return ast.unparse(tree)


def _unwritten(statement: ast.stmt) -> bool:
    return ast.unparse(statement) == "raise NotImplementedError"


def _blank(key: str, stub: str) -> Iterator[Variant]:
    """Yield answers with nothing in them; what they lack is said without an error."""
    never = r"Traceback|raised \w+Error|object at 0x"
    yield Variant("blank", _filled(stub, "pass", "None"), f"{key} {STUB}", "", never)
    values = ("''", "[]", "{}") if "= ..." in stub else ("None",)
    for value in values:
        source = _filled(stub, f"nothing = {value}\nreturn nothing", value)
        yield Variant("blank", source, f"{key} {NOT_YET}", "", never)


# A value that raises whatever is done with it, to hold against a function that does.
MINE = """
def mine(*args, **kwargs):
    raise ValueError("mine")

NAMES = "call getattr eq iter len bool float repr".split()
Mine = type("Mine", (), {f"__{name}__": mine for name in NAMES})
"""


def _raising(key: str, stub: str) -> Iterator[Variant]:
    """Yield an answer that raises: the learner's own words come back."""
    source = MINE + _filled(stub, 'raise ValueError("mine")', "Mine()")
    yield Variant("raising", source, f"{key} {NOT_YET}", "ValueError")


def _cells(path: Path) -> dict[str, list[str]]:
    """Return the percent cells of a file: header -> sources."""
    parts = re.split(r"^# %% *(.+)\n", path.read_text(encoding="utf-8"), flags=re.M)
    found: dict[str, list[str]] = {}
    for header, source in zip(parts[1::2], parts[2::2], strict=True):
        found.setdefault(header.strip(), []).append(source.strip("\n"))
    return found


def _chapter(notebook: Path, course: Path, tests: Path) -> Chapter:
    name = f"ch{notebook.name[:2]}.py"
    ours = [course / folder / name for folder in ("exercises", "solutions")]
    return Chapter(notebook, *ours, tests / "wrong" / name, tests / "tricks" / name)


CHAPTERS = [
    *(_chapter(n, n.parent, ROOT / "tests") for n in notebooks()),
    *(_chapter(n, SAMPLE, SAMPLE) for n in SAMPLE.glob("*.ipynb")),
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
        mistakes = chapter.failing(key, "wrong")
        assert len(mistakes) >= 2, f"{key} has {len(mistakes)} wrong answers"
        messages = {mistake.part for mistake in mistakes}
        assert len(messages) >= 2, f"all mistakes of {key} get one message"
        tricks = chapter.failing(key, "trick")
        assert tricks, f"{key} has no trick in {chapter.tricks.relative_to(ROOT)}"
        messages |= {trick.part for trick in tricks}
        assert all(len(message) >= 8 for message in messages), messages
    for path in (chapter.wrong, chapter.tricks):
        headers = {header.split(":")[0] for header in _cells(path)}
        assert {header.removesuffix(" also") for header in headers} == set(asked)


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
def test_only_right_answers_pass(
    chapter: Chapter, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: Counter[str] = Counter()
    bad = []
    with _kernel(chapter) as kernel:
        for key in chapter.tagged("exercise"):
            for variant in chapter.tries(key):
                tried[variant.kind] += 1
                said = _said(kernel, chapter, key, variant.source)
                bad += filter(None, [variant.fault(said)])
    with capsys.disabled():
        print(f"\n{chapter.number} tried:", _counted(tried))
    assert not bad, "\n".join(bad)


def _counted(tried: Counter[str]) -> str:
    return ", ".join(f"{many} {kind}" for kind, many in tried.items())


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

    def test_a_pass_that_the_answer_prints_is_quoted(self, capsys) -> None:
        def answer() -> int:
            print("97.1 passed. Three it is.\n" * 12)
            return 4

        said = _check(capsys, answer)
        assert said.startswith("97.1 not yet: 4 is not three")
        assert "Your answer printed:\n  | 97.1 passed. Three it is.\n" in said
        assert said.count("  | 97.1 passed") == 10 and said.endswith("  | ...\n")

    def test_a_replaced_witness_is_noticed(self, capsys, monkeypatch) -> None:
        assert "passed" in _check(capsys, 3)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "allclose", lambda *a, **k: True)
            assert "torch.allclose was replaced" in _check(capsys, 3)
        assert "passed" in _check(capsys, 3)

    def test_an_answer_that_leaves_is_explained(self, capsys) -> None:
        def answer() -> None:
            raise SystemExit("I quit")

        assert "raised SystemExit: I quit" in _check(capsys, answer)

    def test_an_error_that_cannot_say_what_it_is(self, capsys) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise ValueError("mine")

        def answer() -> None:
            raise Mute

        assert "raised Mute\n" in _check(capsys, answer)

    def test_a_value_that_raises_whatever_is_done_with_it(self, capsys) -> None:
        names: dict = {}
        exec(MINE, names)
        assert "raised ValueError: mine" in _check(capsys, names["Mine"]())

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


@pytest.mark.parametrize("found", [3, 3.0, np.int64(3), torch.tensor(3.0)])
def test_equal_numbers_are_the_same(found: object) -> None:
    assert exercises.same(found, 3)
    assert not exercises.same(found, 4)


class Lying(int):
    """A number that calls itself equal to every other one."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    "found", [mock.ANY, Lying(7), math.nan, "3", True, None, [3], torch.ones(2), {}]
)
@pytest.mark.parametrize("wanted", [3, "default", None, False])
def test_what_calls_itself_equal_is_not_asked(found: object, wanted: object) -> None:
    assert exercises.same(found, wanted) is (found is wanted)


def test_what_the_compiler_cannot_see_into_is_found() -> None:
    @torch.library.custom_op("course::unseen", mutates_args=())
    def unseen(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    unseen.register_fake(torch.empty_like)
    found = []

    def backend(graph, inputs):
        found.append(exercises.foreign(graph))
        return graph

    for function in (torch.nn.functional.silu, unseen):
        torch.compile(lambda x, f=function: f(x).sin() * 2, backend=backend)(
            torch.ones(3)
        )
    assert found == [[], ["course.unseen.default"]]


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
    ("solutions/*.py", "2 * torch.sin(x)", "torch.sin(x)", "answer: wanted '98.1 pass"),
    ("wrong/*.py", "breaks = 3", "breaks = 2", "number of graphs', got '98.2 passed"),
    ("tricks/*.py", 'float("nan")', "2.0", "trick: wanted '98.2 not yet: count"),
    ("tricks/*.py", "x.sin().mul(2)", "x.sin()", "also: wanted '98.1 passed.', got"),
    ("exercises/*.py", "if found != 1:", "if found > 9:", "2 graphs', got '98.1 pass"),
    ("98_*.ipynb", "breaks = ...", "breaks = 2", "stub: wanted '98.2 not attempted"),
]


def test_the_test_of_exercises_can_fail(tmp_path: Path, capsys) -> None:
    """A wrong answer, mistake and trick that pass, a lax check, a solved stub."""
    whole = tmp_path / "sample"
    shutil.copytree(SAMPLE, whole)
    for pattern, old, new, _ in SPOILT:
        path = next(whole.glob(pattern))
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
    chapter = _chapter(next(whole.glob("*.ipynb")), whole, whole)
    with pytest.raises(AssertionError) as caught:
        test_only_right_answers_pass(chapter, capsys)
    noticed = str(caught.value).splitlines()
    for *_, message in SPOILT:
        assert any(message in line for line in noticed), (message, noticed)
