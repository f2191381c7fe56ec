"""The teaching loop: start, predict, reveal, claim, score.

Prose says what to look at; ``claim`` says what is true, and fails when it is not.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from importlib.util import find_spec
from typing import Any

from helpers import rescue
from helpers.record import session, strict
from helpers.results import version_of
from helpers.text import count, mark

# torch advises lower precision for matmuls on newer GPUs, in every notebook and on
# those GPUs only.  The page would differ between machines for a choice that no
# lesson here makes in passing.  Nothing else is quietened.
_NOISE = "TensorFloat32 tensor cores for float32 matrix multiplication available"
_ADVICE = f"What to do: {rescue.DOCTOR}."


class ClaimFailed(AssertionError):
    """A claim of the page that does not hold on this machine."""


def start(notebook: str) -> None:
    """Print one line: what this notebook runs on, or the first thing missing."""
    session.begin(notebook)
    rescue.attach()
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
    session.claims[text] = holds
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
    session.questions[key] = choices
    print(f"{key}  {question}")
    print("\n".join(f"  {n}. {text}" for n, text in enumerate(choices, 1)))
    if mine is not None:
        guess = _chosen(key, choices, mine)
        session.progress.put("predictions", key, {"guess": guess})
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
    entry = session.progress.read()["predictions"].get(key, {})
    guess = entry.get("guess")
    return guess if guess in session.questions[key] else None


def reveal(key: str, observed: str) -> None:
    """Print what the machine says, and whether the reader's guess was right.

    *observed* is computed just before, and must be one of the options: when it is
    not, the page is wrong here, which raises ClaimFailed in strict mode.
    """
    if key not in session.questions:
        _fault(f"{key}: run the cell with predict({key!r}, ...) first")
        return
    if observed not in session.questions[key]:
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
    session.progress.put("predictions", key, entry)
    print("You said so too." if right else f"You said: {guess}")


def _fault(message: str) -> None:
    if strict():
        raise ClaimFailed(message)
    print(message)


def score(notebook: str) -> None:
    """Print what holds, what was guessed and what was solved in this notebook.

    Counts the cells that ran since ``start``, so run the notebook to the end.
    """
    if session.notebook != notebook:
        print(f'Run the first cell, start("{notebook}"), and the cells below it first.')
        return
    record = session.progress.read()
    asked = [record["predictions"].get(key, {}) for key in session.questions]
    answered = [entry for entry in asked if "right" in entry]
    right = sum(entry["right"] is True for entry in answered)
    passed = sum(key in record["exercises"] for key in session.exercises)
    holds = sum(session.claims.values())
    print(f"Notebook {notebook}")
    print(f"  claims       {holds} of {len(session.claims)} hold")
    print(f"  predictions  {len(answered)} of {len(asked)} made, {right} right")
    print(f"  exercises    {passed} of {len(session.exercises)} passed")
