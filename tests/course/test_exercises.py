"""Each exercise of each notebook, tried as readers would: stub, wrong, right.

``wrong/ch01.py`` has honest mistakes: a header ``01.1: part of the message`` says what
the check must tell.  Below it stands the answer, or what differs from the solution:
``# - this`` there is ``# + that``.  ``right/ch01.py`` has, in the same form, answers
that aren't ours, where a check looks at more than a result.  The notebook's own
cells run: the setup cell, then those of the exercise.  So an exercise needs nothing
else of its notebook, and readers may go straight to it.
"""

import contextlib
import io
import itertools
import linecache
import re
import sys
import types

import pytest

from course import exercises
from course.teach import Progress, lesson
from tests.form import keys, parts, tags
from tests.refresh import ROOT, notebooks, read

STUB = "not attempted yet."
CELLS = itertools.count()
NOTEBOOKS = notebooks()
FOLDERS = {"solutions": ROOT / "notebooks", "right": ROOT / "tests" / "course"}
FOLDERS["wrong"] = FOLDERS["right"]


def asked(notebook):
    """Return the exercises of a notebook, in order."""
    cells = [cell for cell in read(notebook).cells if "exercise" in tags(cell)]
    return [key for cell in cells for key in keys(cell)]


def answers(notebook, kind):
    """Return (key, what the header says, source) of solutions, wrong or right."""
    path = FOLDERS[kind] / kind / f"ch{notebook.name[:2]}.py"
    return parts(path.read_text(encoding="utf-8")) if path.exists() else []


def run(source, names):
    """Execute a cell as a kernel does, and return what it printed."""
    file = f"<ipython-input-{next(CELLS)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, file, "exec"), names)
    return printed.getvalue()


def checker(notebook, key):
    """Return the stub of an exercise, and what says what is told of an answer."""
    cells = [c for c in read(notebook).cells if c.cell_type == "code"]
    names = vars(sys.modules["__main__"])
    [setup] = [cell.source for cell in cells if "setup" in tags(cell)]
    run(setup, names)
    own = [cell for cell in cells if key in keys(cell)]
    [stub] = [cell.source for cell in own if "exercise" in tags(cell)]

    def told(answer):
        printed = ""
        for cell in own:
            is_answer = "exercise" in tags(cell)
            printed = run(answer if is_answer else cell.source, names)
            if "check" in tags(cell):
                return printed
        raise AssertionError(f"{key} has no check cell after its exercise cell")

    return stub, told


CHANGE = re.compile(r"((?:^# -.*\n)+)((?:^# \+.*\n)*)", re.MULTILINE)


def changed(solution, answer):
    """Return *answer*, or *solution* as the `# -` and `# +` lines of *answer* say."""
    if not CHANGE.search(answer):
        return answer
    for lines in CHANGE.findall(answer):
        old, new = (re.sub(r"^# [-+] ?", "", text, flags=re.M)[:-1] for text in lines)
        assert solution.count(old) == 1, f"not one {old!r} in the solution:\n{solution}"
        solution = solution.replace(old, new)
    return solution


def faults(notebook, key, newest=0):
    """Yield what a check says and should not: of the stub, wrong and right answers.

    All are tried, or besides the solution so many of the *newest* wrong ones.
    """
    stub, told = checker(notebook, key)
    [solution] = [a for of, _, a in answers(notebook, "solutions") if of == key]
    wrong = [
        ("wrong", f"{key} not yet: ", what, changed(solution, answer))
        for of, what, answer in answers(notebook, "wrong")
        if of == key
    ]
    tries = [("stub", f"{key} {STUB}", "", stub), *wrong[-newest:]]
    right = [a for of, _, a in answers(notebook, "right") if of == key and not newest]
    tries += [("right", f"{key} passed.", "", changed(solution, a)) for a in right]
    tries.append(("solution", f"{key} passed.", "", solution))
    for kind, begins, part, answer in tries:
        message = told(answer)
        noisy = begins.endswith(" passed.") and "Your answer printed" in message
        if noisy or not message.startswith(begins) or part not in message:
            yield f"{kind}: wanted {begins + part!r}, got {message!r}"


@pytest.fixture
def beside_the_notebooks(monkeypatch):
    monkeypatch.setenv("COURSE_STRICT", "1")
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    monkeypatch.chdir(ROOT / "notebooks")
    monkeypatch.syspath_prepend(ROOT / "notebooks")


EXERCISES = [pytest.param(p, k, id=k) for p in NOTEBOOKS for k in asked(p)]


# Each answer compiles, often many times: all are tried weekly, or by -m "", which is
# for whoever changes a check.
@pytest.mark.parametrize("newest", [1, pytest.param(0, marks=pytest.mark.weekly)])
@pytest.mark.parametrize(("notebook", "key"), EXERCISES)
def test_only_right_answers_pass(notebook, key, newest, beside_the_notebooks):
    bad = list(faults(notebook, key, newest))
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name[:2])
def test_notebook_checks_answers_and_mistakes_name_the_same_exercises(
    notebook, beside_the_notebooks
):
    known = exercises.chapter(notebook.name[:2])
    assert sorted(asked(notebook)) == sorted(known)
    assert asked(notebook) == [key for key, *_ in answers(notebook, "solutions")]
    assert {key for key, *_ in answers(notebook, "right")} <= {*known}
    for key, exercise in known.items():
        messages = {what for of, what, _ in answers(notebook, "wrong") if of == key}
        assert messages, f"{key} is told apart from no mistake"
        assert all(len(message) >= 8 for message in messages), messages
        hints = exercise.hints
        assert len(set(hints)) == 3 and all(8 <= len(hint) <= 400 for hint in hints)


# What check and hint say, on a chapter that is made up here.

CHAPTER = """
from course.exercises import exercise

@exercise("97.1", hints=("think of it", "look at it", "write it down"), passed="Yes.")
def three(answer):
    found = answer() if callable(answer) else answer
    assert found != "assert", "an assertion of the check"
    assert found != ""
    return None if found == 3 else f"{found!r} is not three"
"""


@pytest.fixture
def told(tmp_path, monkeypatch, learner, capsys):
    """What check("97.1", ...) prints for an answer, a cell's source or a value."""
    (tmp_path / "ch97").mkdir()
    (tmp_path / "ch97" / "checks.py").write_text(CHAPTER, encoding="utf-8")
    monkeypatch.setattr(exercises, "_FOLDER", tmp_path)
    monkeypatch.setattr(lesson, "progress", Progress())
    lesson.begin("97")

    def told(answer):
        if type(answer) is str and "def answer" in answer:
            names = {}
            run(answer, names)
            answer = names["answer"]
        exercises.check("97.1", answer)
        return capsys.readouterr().out

    return told


def test_a_pass_lasts(told):
    assert told(3) == "97.1 passed. Yes.\n"
    assert told(4) == (
        "97.1 not yet: 4 is not three\n"
        'Stuck? hint("97.1", 1) is a nudge, and 3 is nearly the answer.\n'
    )
    assert lesson.progress.read()["exercises"]["97.1"] == {"passed": True}
    assert "not yet: an assertion of the check\n" in told("assert")
    assert "not yet: a check of the result failed\n" in told("")


@pytest.mark.parametrize(
    "answer",
    [
        *(None, ..., (3, ...), [None], {"a": ...}),
        "def answer():\n    raise NotImplementedError",
        'def answer():\n    """Doc."""\n    raise NotImplementedError("here")',
        "def rest():\n    raise NotImplementedError\ndef answer():\n    return rest()",
        "import torch\n@torch.compile\ndef answer():\n    raise NotImplementedError",
    ],
)
def test_what_is_not_filled_in_is_told_apart(told, answer):
    assert told(answer) == f"97.1 {exercises._STUB}\n"


def test_an_error_of_the_answer_is_shown_whole_with_its_own_lines(told):
    message = told(
        "def half(n):\n    return n / 0\n"
        "def answer():\n    try:\n        half(3)\n"
        "    except ZeroDivisionError as error:\n"
        "        raise ValueError('mine') from error\n"
    )
    assert "97.1 not yet: your answer raised ZeroDivisionError: division" in message
    assert "your line 5, in answer: half(3)\n" in message
    assert "your line 2, in half: return n / 0\n" in message
    message = told("def answer():\n    raise ValueError('first line\\nsecond line')")
    assert "raised ValueError: first line\nsecond line\n  your line 2, in" in message
    for ends in ("SystemExit(2)", "AssertionError(2)"):
        message = told(f"def answer():\n    raise {ends}")
        assert f"your answer raised {ends[:-3]}: 2\n" in message
    message = told(
        "import torch\n"
        "def backend(graph, inputs):\n    return graph.nonsense\n"
        "def answer():\n"
        "    return torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))\n"
    )
    assert "raised AttributeError: 'GraphModule' object has no attribute" in message
    assert "your line 3, in backend: return graph.nonsense" in message


def test_an_odd_answer_does_not_end_the_check(told):
    class Odd:
        def __getattribute__(self, name):
            raise ValueError("mine")

        __call__ = __eq__ = __repr__ = __getattribute__

    said = "97.1 not yet: your answer, or the check with it, raised ValueError: mine\n"
    assert told(Odd()).startswith(said)
