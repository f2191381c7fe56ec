"""Exercises: a chapter's checks and hints, told by behaviour and never by text.

``notebooks/exercises/ch01.py`` defines the exercises of notebook 01.  A check runs
what the learner made, and returns None for a pass or says what is wrong with it.

Answer and check share a process, so a check is no lock.  It holds against what a
learner may try in a cell: it asks no object whether it is equal, quotes what the
answer prints, and sees when its own witnesses (`torch.allclose`) were replaced.

What the checks of exercises judge with, so that no object fools them.

same(found, wanted)  whether an answer is the number or the text that was wanted
number(found)        an answer as a float, if it is a number
foreign(graph)       the calls in a graph that the compiler could not see into
tampered()           which tool of a check was replaced in this kernel
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import io
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

from helpers.teach import lesson, strict

_WITNESSES = {  # what checks compare and count with
    "torch": "allclose compile equal is_tensor isclose",
    "helpers": "compare dump_triton eager_bytes graphs kernels output_code recompiles",
    "builtins": "abs all any isinstance issubclass len set sorted sum type zip",
}
_OWN = re.compile(r"__main__$|torch\._ops\.(?!aten|prim)")  # modules


def _witnesses() -> dict[str, Any]:
    """Return what checks compare and count with, as far as it is imported."""
    modules = {name: vars(sys.modules.get(name, sys)) for name in _WITNESSES}
    return {
        f"{name}.{tool}": modules[name][tool]
        for name, tools in _WITNESSES.items()
        for tool in tools.split()
        if tool in modules[name]
    }


_seen = _witnesses()


def tampered() -> str | None:
    """Return what to say when a witness is not what it was at first, or None."""
    for name, tool in _witnesses().items():
        of_a_cell = getattr(tool, "__module__", None) == "__main__"
        if _seen.setdefault(name, tool) is not tool or of_a_cell:
            return (
                f"{name} was replaced in this kernel, and the check relies on it: "
                "restart the kernel, and run your answer without that line"
            )
    return None


def same(found: Any, wanted: Any) -> bool:
    """Return whether an answer is the number, the text, the bool or the None wanted.

    *found* is not asked whether it is equal: an object may say so of everything.
    """
    if isinstance(wanted, str):
        return isinstance(found, str) and str.__eq__(wanted, found)
    if wanted is None or isinstance(wanted, bool):
        return found is wanted
    return number(found) == wanted


def number(found: Any) -> float | None:
    """Return an answer as a float; None for text, a bool, and what is no number."""
    if isinstance(found, (bool, str, bytes)) or not hasattr(found, "__float__"):
        return None
    try:
        return float(found)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def foreign(graph: Any) -> list[str]:
    """Return the calls in a captured graph whose inside the compiler never saw.

    That is an operator or a function of the learner's own; torch's are seen.
    """
    calls = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    return [str(call) for call in calls if _OWN.match(getattr(call, "__module__", ""))]


_KEY = re.compile(r"(\d\d)\.[1-9]\d?")
_COURSE = Path(__file__).resolve().parents[1]
_SHOWN = 10  # lines of what an answer prints
_STUB = "not attempted yet. Fill in the cell above, run it, then run this one."
_STUCK = 'Stuck? hint("{key}", 1) is a nudge, and 3 is nearly the answer.'


class ExerciseError(ValueError):
    """An exercise that does not exist, or a chapter that cannot be read."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: its check, three hints, and what is said when it is passed."""

    key: str
    hints: tuple[str, str, str]
    passed: str
    check: Callable[[Any], str | None]

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ExerciseError(f"an exercise is named like '01.2', not {self.key!r}")
        if len(self.hints) != 3 or not all(hint.strip() for hint in self.hints):
            raise ExerciseError(f"{self.key}: an exercise has exactly three hints")


def exercise(
    key: str, *, hints: tuple[str, str, str], passed: str
) -> Callable[[Callable[[Any], str | None]], Exercise]:
    """Decorator: make a check function the exercise *key* of its chapter.

    The function takes the learner's answer and returns None for a pass or a message
    for the learner.  An AssertionError that it raises is such a message too.
    """
    return lambda check: Exercise(key, tuple(hints), passed, check)


def chapter(number: str) -> dict[str, Exercise]:
    """Return the exercises of a chapter such as "01", read fresh from its file.

    Raises ExerciseError when there is no such file, naming the folders looked in.
    """
    folders = list(dict.fromkeys(_folders()))
    for folder in folders:
        path = folder / f"ch{number}.py"
        if path.is_file():
            return _load(path)
    raise ExerciseError(
        f"no exercises for notebook {number}: there is no ch{number}.py in "
        f"{' or '.join(map(str, folders))}. It comes with the course: run the notebook "
        "in its own folder, or get the course again."
    )


def _folders() -> Iterator[Path]:
    here = Path.cwd()
    yield _COURSE / "notebooks" / "exercises"
    yield from (here / "exercises", here / "notebooks" / "exercises")


def _load(path: Path) -> dict[str, Exercise]:
    name = f"exercises_{path.stem}"
    spec = spec_from_file_location(name, path)
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and torch look a module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ExerciseError(
            f"{path.name} cannot be used ({type(error).__name__}: {error}). If you "
            f"changed it, put it back: git checkout -- {path.name}"
        ) from error
    found = [item for item in vars(module).values() if isinstance(item, Exercise)]
    return {item.key: item for item in found}


def find(key: str) -> Exercise:
    """Return the exercise *key*; ExerciseError lists the known ones."""
    named = _KEY.fullmatch(str(key))
    if not named:
        raise ExerciseError(f"an exercise is named like '01.2', not {key!r}")
    known = chapter(named[1])
    if key not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise ExerciseError(f"There is no exercise {key}; the known ones are {listed}")
    return known[key]


def check(key: str, answer: Any) -> None:
    """Try *answer* against exercise *key*, and print what was found.

    A learner sees a message, never a traceback, whatever the answer does.
    """
    printed = io.StringIO()
    try:
        found = find(key)
        lesson.exercises.add(key)
        with contextlib.redirect_stdout(printed):
            message = _judge(found, answer)
    except ExerciseError as error:
        _fault(error)
        return
    if message is None:
        lesson.progress.put("exercises", key, {"passed": True})
        print(f"{key} passed. {found.passed}")
    elif message == _STUB:
        print(f"{key} {_STUB}")
    else:
        print(f"{key} not yet: {message}\n{_STUCK.format(key=key)}")
    print(_quoted(printed.getvalue()), end="")


def _quoted(text: str) -> str:
    """Return what the answer printed, as nobody can take it for the check's."""
    lines = [f"  | {line}\n" for line in text.splitlines() if line.strip()]
    more = ["  | ...\n"] if lines[_SHOWN:] else []
    head = ["Your answer printed:\n"] if lines else []
    return "".join([*head, *lines[:_SHOWN], *more])


def hint(key: str, level: int = 1) -> None:
    """Print a hint: 1 is a nudge, 3 is nearly the answer, 0 prints none."""
    try:
        if level not in (0, 1, 2, 3):
            raise ExerciseError(
                f"A hint has level 1, 2 or 3 (0 for none), not {level!r}"
            )
        if level:
            print(f"Hint {level} of 3 for {key}: {find(key).hints[level - 1]}")
    except ExerciseError as error:
        _fault(error)


def _fault(error: ExerciseError) -> None:
    if strict():
        raise error
    print(error)


def _judge(found: Exercise, answer: Any) -> str | None:
    """Return None for a pass, or what to tell the learner."""
    try:
        message = _STUB if is_stub(answer) else found.check(answer)
    except (Exception, SystemExit) as error:
        if isinstance(error, AssertionError) and not _raised_in_cell(error):
            return _text(error) or "a check of the result failed"
        return _STUB if any(map(_is_stubborn, _causes(error))) else _explained(error)
    if message is None:
        return tampered()
    if isinstance(message, str) and message.strip():
        return message
    raise ExerciseError(f"the check of {found.key} said {message!r}, and not in words")


def _is_stubborn(error: BaseException) -> bool:
    """Return whether a stub deep in the answer raised this, and not a library."""
    return isinstance(error, NotImplementedError) and _raised_in_cell(error)


def _raised_in_cell(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and _is_cell(frames[-1].filename)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in seen:
        seen.append(step)
        yield step
        step = step.__cause__ or step.__context__


def _explained(error: BaseException) -> str:
    """Say what the learner's answer raised, and on which of its own lines."""
    first = next((ln for ln in _text(error).splitlines() if ln.strip()), "").strip()
    what = f"{type(error).__name__}: {first[:200]}" if first else type(error).__name__
    own = [
        frame
        for cause in _causes(error)
        for frame in traceback.extract_tb(cause.__traceback__)
        if _is_cell(frame.filename)
    ]
    where = f"\n  in your line: {own[-1].line}" if own and own[-1].line else ""
    who = "your answer" if own else "your answer, or the check with it,"
    return (
        f"{who} raised {what}{where}\n"
        "  Call it yourself in a new cell, to see where it goes wrong."
    )


def _text(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:  # an exception of the learner's, which cannot say what it is
        return ""


def _is_cell(filename: str) -> bool:
    return "ipykernel_" in filename or filename.startswith(("<ipython-input", "<cell"))


def is_stub(answer: Any) -> bool:
    """Return whether nothing was filled in.

    That is None, ``...``, a function that does nothing or only raises
    NotImplementedError, or a tuple, list or dict with one of these in it.
    """
    if answer is None or answer is ...:
        return True
    if isinstance(answer, dict):
        return any(map(is_stub, answer.values()))
    if isinstance(answer, (tuple, list)):
        return any(map(is_stub, answer))
    if not callable(answer):
        return False
    inner = inspect.unwrap(answer)
    inner = getattr(inner, "fn", inner)  # a Triton kernel keeps its function there
    code = getattr(inner, "__code__", None)
    return isinstance(code, CodeType) and _does_nothing(code)


def _does_nothing(code: CodeType) -> bool:
    """Read the bytecode: to call a compiled stub would hide what it raises."""
    steps = list(dis.get_instructions(code))
    kinds = {step.opname for step in steps}
    values = [s.argval for s in steps if s.opname.startswith(("LOAD_", "RETURN_C"))]
    if "RAISE_VARARGS" in kinds:
        named = {"NotImplementedError", NotImplementedError}
        returns = any(kind.startswith("RETURN") for kind in kinds)
        return not returns and any(
            isinstance(v, (str, type)) and v in named for v in values
        )
    quiet = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "POP_TOP"}
    return kinds <= quiet and all(value is None or value is ... for value in values)
