"""The teaching loop: start, predict, reveal, claim, score.

Prose says what to look at; ``claim`` says what is true, and fails when it is not.

What the reader did: this session's record, and one small file that lasts.

The file lies in the reader's own folder, never in the course, so an update of the
course cannot touch it.  When it cannot be read or written, the lesson goes on.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import sys
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from helpers import health
from helpers.results import version_of, write_atomically
from helpers.text import count, mark

NAME = "progress.json"
SECTIONS = ("predictions", "exercises")
_COURSE = Path(__file__).resolve().parents[1]
Entries = dict[str, Any]  # section -> key -> what is known about it


def strict() -> bool:
    """Return whether a false claim must raise: COURSE_STRICT=1, or else CI=true."""
    chosen = os.environ.get("COURSE_STRICT") or os.environ.get("CI") or ""
    return chosen.lower() in ("1", "true", "yes", "on")


def folder() -> Path:
    """Return the reader's folder: COURSE_HOME, or the platform's data folder.

    Raises OSError when that lies inside the course itself.
    """
    chosen = os.environ.get("COURSE_HOME")
    usual = platformdirs.user_data_path("torch-compile-course", appauthor=False)
    path = (Path(chosen).expanduser() if chosen else usual).resolve()
    if path.is_relative_to(_COURSE):
        raise OSError("the folder lies inside the course, where an update writes")
    return path


@dataclass
class Progress:
    """Guesses and passed exercises, read from the file and merged into it."""

    changes: Entries = field(default_factory=lambda: _nothing())
    told: bool = False

    def read(self) -> Entries:
        """Return what is on record: the file, and over it what this kernel did."""
        try:
            return _merged(self._stored(), self.changes)
        except OSError:  # put() says so, once there is something to lose
            return _merged(_nothing(), self.changes)

    def put(self, section: str, key: str, entry: dict[str, Any]) -> None:
        """Record *entry*; what another notebook wrote into the file stays."""
        self.changes[section][key] = entry
        try:
            path = folder() / NAME
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_suffix(".lock"), timeout=5):
                whole = _merged(self._stored(), self.changes)
                text = json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True)
                write_atomically(path, text + "\n")
        except (OSError, NotImplementedError) as error:
            self._tell(f"Your progress could not be saved ({error}).")

    def _stored(self) -> Entries:
        path = folder() / NAME
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            entries = [e for s in SECTIONS for e in found.get(s, {}).values()]
            if not all(isinstance(entry, dict) for entry in entries):
                raise ValueError("not a progress file")
        except FileNotFoundError:
            return _nothing()
        except (ValueError, AttributeError, RecursionError):
            return self._set_aside(path)
        return found

    def _set_aside(self, path: Path) -> Entries:
        """Move a damaged file out of the way, so that nothing in it is lost.

        Raises OSError when it cannot be moved: then nothing may be written over it.
        """
        when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        aside = path.with_name(f"progress.damaged-{when}.json")
        try:
            path.rename(aside)
        except FileNotFoundError:  # another notebook has just moved it
            return _nothing()
        print(f"Your progress file was damaged. It is kept as {aside}.")
        return _nothing()

    def _tell(self, what: str) -> None:
        if not self.told:
            self.told = True
            print(
                f"{what} It is kept until this kernel stops. To keep it longer, "
                "set COURSE_HOME to a folder that you may write to."
            )


def _nothing() -> Entries:
    return {section: {} for section in SECTIONS}


def _merged(stored: Entries, changes: Entries) -> Entries:
    """Return *stored* with *changes* on top; what a newer course added stays."""
    whole = copy.deepcopy(stored)
    for section in SECTIONS:
        whole.setdefault(section, {}).update(changes[section])
    return whole


@dataclass
class Lesson:
    """What happened in this kernel since ``start``."""

    notebook: str | None = None
    claims: dict[str, bool] = field(default_factory=dict)
    questions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exercises: set[str] = field(default_factory=set)
    progress: Progress = field(default_factory=Progress)

    def begin(self, notebook: str) -> None:
        """Forget the claims and questions of an earlier pass through a notebook."""
        self.notebook = notebook
        self.claims.clear()
        self.questions.clear()
        self.exercises.clear()


lesson = Lesson()


# torch advises lower precision for matmuls on newer GPUs, in every notebook and on
# those GPUs only.  The page would differ between machines for a choice that no
# lesson here makes in passing.  Nothing else is quietened.
_NOISE = "TensorFloat32 tensor cores for float32 matrix multiplication available"
_ADVICE = f"What to do: {health.DOCTOR}."


class ClaimFailed(AssertionError):
    """A claim of the page that does not hold on this machine."""


def start(notebook: str) -> None:
    """Print one line: what this notebook runs on, or the first thing missing."""
    lesson.begin(notebook)
    health.attach()
    missing = _first_missing()
    if missing:
        print(f"Not ready: {missing}. {_ADVICE}")
        return
    import torch

    warnings.filterwarnings("ignore", message=_NOISE)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    triton = version_of("triton")
    facts = (
        f"torch {torch.__version__}",
        f"triton {triton}" if triton else "no triton",
        gpu or "CPU",
        count(torch.get_num_threads(), "thread"),
    )
    print(f"Ready: notebook {notebook} on {mark(', '.join(facts))}")


def _first_missing() -> str | None:
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    for switch in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if os.environ.get(switch) == "1":
            return f"{switch}=1 switches torch.compile off: unset it, and restart"
    if torch.cuda.is_available() and find_spec("triton") is None:
        return "triton is not installed, and torch.compile needs it on this GPU"
    usual = ("cl",) if sys.platform == "win32" else ("c++", "g++", "clang++")
    if not any(map(shutil.which, (os.environ.get("CXX", ""), *usual))):
        return "no C++ compiler was found, and torch.compile needs one on the CPU"
    return None


def claim(text: str, condition: Any, why: str = "") -> None:
    """Say whether *text* holds, as *condition* found out just now.

    A false claim raises ClaimFailed in strict mode (CI); a learner is told *why*
    it may be and what to do, and goes on.  *condition* is a bool, or a numpy or
    torch bool with one element; anything else raises TypeError, because a claim
    about a list or a function could never fail.
    """
    if not isinstance(text, str) or not text.strip():
        raise TypeError("claim(text, condition): text says in words what holds")
    holds = _as_bool(text, condition)
    lesson.claims[text] = holds
    if holds:
        print(f"✓ holds: {text}")
        return
    if strict():
        raise ClaimFailed(f"{text}. {why}".strip() if why else text)
    lines = [f"✗ does not hold here: {text}"]
    lines += [f"  Why it should: {why}"] if why else []
    lines.append(
        "  If you changed a cell above, that may be the reason: restart the kernel"
        "\n  and run all cells. If not, this machine differs from the page: run"
        "\n  `python -m helpers doctor` in a terminal. The lesson goes on."
    )
    print("\n".join(lines))


def _as_bool(text: str, condition: Any) -> bool:
    if isinstance(condition, bool):
        return condition
    # numpy.bool and a torch tensor both say their dtype and give their item.
    if str(getattr(condition, "dtype", "")) in ("bool", "torch.bool"):
        shape = tuple(condition.shape)
        if all(length == 1 for length in shape):
            return bool(condition.item())
        raise TypeError(
            f"claim {text!r}: the condition has shape {shape}, not one answer: "
            "say .all() or .any()"
        )
    raise TypeError(
        f"claim {text!r}: the condition is {_kind(condition)}, not True or False: "
        "compare it with something, as in `graphs == 2`"
    )


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def predict(
    key: str, question: str, options: list[str], mine: int | str | None = None
) -> None:
    """Ask *question*, and keep the reader's guess in the reader's own file.

    *mine* is the number of an option, from 1, or its text; None asks for one.
    ValueError names the options when it is neither.
    """
    choices = _checked(key, options)
    lesson.questions[key] = choices
    print(f"{key}  {question}")
    print("\n".join(f"  {n}. {text}" for n, text in enumerate(choices, 1)))
    if mine is not None:
        guess = _chosen(key, choices, mine)
        lesson.progress.put("predictions", key, {"guess": guess})
        print(f"Your guess: {guess}")
    elif _guess(key):
        print(f"Your guess on record: {_guess(key)}")
    else:
        numbers = ", ".join(str(n) for n in range(1, len(choices)))
        print(f"Your guess: none yet. Set mine={numbers} or {len(choices)}, run again.")


def _checked(key: str, options: list[str]) -> tuple[str, ...]:
    texts = tuple(options) if isinstance(options, (list, tuple)) else ()
    words = all(isinstance(t, str) and not t.strip().isdigit() for t in texts)
    if len(texts) < 2 or len(set(texts)) < len(texts) or not words:
        raise ValueError(
            f"{key}: options must be two or more different texts, and not bare "
            "numbers, which the number of an option would be taken for"
        )
    return texts


def _chosen(key: str, choices: tuple[str, ...], mine: int | str) -> str:
    if mine in choices:
        return mine
    number = int(mine) if isinstance(mine, str) and mine.strip().isdigit() else mine
    if type(number) is int and 1 <= number <= len(choices):
        return choices[number - 1]
    listed = "; ".join(f"{n} for {text!r}" for n, text in enumerate(choices, 1))
    raise ValueError(f"{key}: mine={mine!r} is none of the options. Write {listed}.")


def _guess(key: str) -> str | None:
    """Return the guess on record, unless the course has changed its options."""
    entry = lesson.progress.read()["predictions"].get(key, {})
    guess = entry.get("guess")
    return guess if guess in lesson.questions[key] else None


def reveal(key: str, observed: str) -> None:
    """Print what the machine says, and whether the reader's guess was right.

    *observed* is computed just before, and must be one of the options: when it is
    not, the page is wrong here, which raises ClaimFailed in strict mode.
    """
    if key not in lesson.questions:
        _fault(f"{key}: run the cell with predict({key!r}, ...) first")
        return
    if observed not in lesson.questions[key]:
        _fault(
            f"{key}: the machine says {observed!r}, which is none of the options. "
            f"Either a cell above was changed, or the page is wrong here. {_ADVICE}"
        )
        return
    print(f"{key}  The machine says: {observed}")
    guess = _guess(key)
    if guess is None:
        print("No guess on record. Guess before you look: a surprise is remembered.")
        return
    right = guess == observed
    entry = {"guess": guess, "right": right}
    lesson.progress.put("predictions", key, entry)
    print("You said so too." if right else f"You said: {guess}")


def _fault(message: str) -> None:
    if strict():
        raise ClaimFailed(message)
    print(message)


def score(notebook: str) -> None:
    """Print what holds, what was guessed and what was solved in this notebook.

    Counts the cells that ran since ``start``, so run the notebook to the end.
    """
    if lesson.notebook != notebook:
        print(f'Run the first cell, start("{notebook}"), and the cells below it first.')
        return
    record = lesson.progress.read()
    asked = [record["predictions"].get(key, {}) for key in lesson.questions]
    answered = [entry for entry in asked if "right" in entry]
    right = sum(entry["right"] is True for entry in answered)
    passed = sum(key in record["exercises"] for key in lesson.exercises)
    holds = sum(lesson.claims.values())
    print(f"Notebook {notebook}")
    print(f"  claims       {holds} of {len(lesson.claims)} hold")
    print(f"  predictions  {len(answered)} of {len(asked)} made, {right} right")
    print(f"  exercises    {passed} of {len(lesson.exercises)} passed")
