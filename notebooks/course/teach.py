"""The teaching loop of a notebook: start, predict, reveal, claim.

Prose says what to look at; ``claim`` says what is true, and fails when it is not.
What the reader guessed and solved lasts in one small file.  It lies in the reader's
own folder, never in the course, where an update would write over it; when it cannot
be read or written, the lesson goes on.
"""

from __future__ import annotations

import ast
import inspect
import json
import linecache
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import platformdirs
from filelock import FileLock

from course import cell_errors, page_log
from course.left_out import left_out
from course.moved import renumbered
from course.signs import Sign, verdict
from helpers.health import DOCTOR
from helpers.results import version_of, write_atomically
from helpers.text import count, kernel_shell, mark, watched

_COURSE = Path(__file__).resolve().parents[2]
Entries = dict[str, dict[str, Any]]  # section -> key -> what is known about it


class ClaimFailed(AssertionError):
    """A claim of the page that does not hold on this machine."""


def strict() -> bool:
    """Return whether a false claim must raise: COURSE_STRICT=1, or else CI=true."""
    chosen = os.environ.get("COURSE_STRICT") or os.environ.get("CI") or ""
    return chosen.lower() in ("1", "true", "yes", "on")


# What is kept: the reader's file, and the record of this kernel.


def progress_file() -> Path:
    """Return the reader's file, in COURSE_HOME or else the platform's data folder.

    Raises OSError when that lies inside the course itself.
    """
    chosen = os.environ.get("COURSE_HOME")
    usual = platformdirs.user_data_path("torch-compile-course", appauthor=False)
    folder = (Path(chosen).expanduser() if chosen else usual).resolve()
    if folder.is_relative_to(_COURSE):
        raise OSError("the folder lies inside the course, where an update writes")
    return folder / "progress.json"


def _stored() -> Entries:
    """Return what the file holds; a damaged one is moved aside, and nothing is lost.

    Raises OSError when it cannot be moved: then nothing may be written over it.
    """
    path = progress_file()
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        sections = [stored.get(name, {}) for name in ("predictions", "exercises")]
        entries = [entry for section in sections for entry in section.values()]
        if all(isinstance(entry, dict) for entry in entries):
            return renumbered(stored)
    except FileNotFoundError:
        return renumbered({})
    except (ValueError, AttributeError, RecursionError):
        pass
    when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    aside = path.with_name(f"progress.damaged-{when}.json")
    try:
        path.rename(aside)
    except FileNotFoundError:  # another notebook has just moved it
        return renumbered({})
    print(f"Your progress file was damaged. It is kept as {aside}.")
    return renumbered({})


class Progress:
    """The reader's guesses and passed exercises: the file, and this kernel's changes.

    Each ``put`` merges them into the file under a lock, so that two notebooks at once
    lose nothing; what a newer course has written there stays.
    """

    def __init__(self) -> None:
        self.changes: Entries = {"predictions": {}, "exercises": {}}
        self.complained = False

    def read(self) -> Entries:
        """Return what is on record, section by section."""
        try:
            return self._merged(_stored())
        except OSError:  # put() says so, once there is something to lose
            return self._merged({})

    def put(self, section: str, key: str, entry: dict[str, Any]) -> None:
        """Record *entry*, in this kernel at least."""
        self.changes[section][key] = entry
        try:
            path = progress_file()
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_suffix(".lock"), timeout=5):
                record = self._merged(_stored())
                text = json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True)
                write_atomically(path, text + "\n")
            for entries in self.changes.values():  # another kernel may change them
                entries.clear()
        except (OSError, NotImplementedError) as error:  # there may be no locks
            if not self.complained:
                self.complained = True
                print(
                    f"Your progress could not be saved ({error}). It is kept until "
                    "this kernel stops. To keep it longer, set COURSE_HOME to a "
                    "folder that you may write to."
                )

    def _merged(self, stored: Entries) -> Entries:
        for section, entries in self.changes.items():
            stored.setdefault(section, {}).update(entries)
        return stored


@dataclass
class Lesson:
    """What happened in this kernel since ``start``."""

    notebook: str | None = None
    claims: dict[str, bool] = field(default_factory=dict)
    questions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)

    def begin(self, notebook: str) -> None:
        """Forget the claims and questions of an earlier pass through a notebook."""
        self.notebook = notebook
        self.claims.clear()
        self.questions.clear()


lesson = Lesson()


# Start: the first cell.

# torch advises lower precision for matmuls on newer GPUs, in every notebook and on
# those GPUs only.  The page would differ between machines for a choice that no
# lesson here makes in passing.
_NOISE = "TensorFloat32 tensor cores for float32 matrix multiplication available"


# Lines stay short enough to read on a wide screen.  What was to be clicked or moved
# becomes words once its kernel has stopped, in place of JupyterLab's broken links.  On
# a dark page a picture is dark too: inverted, and turned back to its colours.
_PAGE = """
.jp-Notebook .jp-Cell {max-width: 64rem}
:is([data-jp-theme-light="false"], .vscode-dark) img {
  filter: invert(.93) hue-rotate(180deg)
}
.jp-Notebook .jupyter-widgets-disconnected::before {display: none}
.jp-Notebook .jupyter-widgets-disconnected:is(button, .widget-hslider) {
  background: none; box-shadow: none; color: inherit; pointer-events: none
}
.jp-OutputArea-output.jupyter-widgets:not(:has(*)) {font-size: 0}
.jp-OutputArea-output > .jupyter-widgets-disconnected::after,
.jp-OutputArea-output.jupyter-widgets:not(:has(*))::after {
  font-size: var(--jp-ui-font-size1, 13px);
  content: "Its kernel has stopped. Choose Run > Run All Above Selected Cell, then \
run this cell again."
}
"""


def start(notebook: str) -> None:
    """Print one line: what this notebook runs on, or the first thing missing."""
    lesson.begin(notebook)
    if strict():
        cell_errors.explain_errors()
    else:
        cell_errors.explain_errors(left_out.lack)
        left_out.begin(kernel_shell())
    missing = _first_missing()
    if missing:
        print(f"Not ready: {missing}. What to do: {DOCTOR}.")
        return
    import torch

    warnings.filterwarnings("ignore", message=_NOISE)
    # The profiler writes a line with the time and its process at each start and stop.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    page_log.on_the_page()
    if watched():
        from IPython.display import HTML, display

        display(HTML(f"<style>{_PAGE}</style>"))
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
    """Return the first thing without which nothing compiles; all of it says doctor."""
    if not version_of("torch"):
        return "torch is not installed"
    import torch

    for switch in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if os.environ.get(switch) == "1":
            return f"{switch}=1 switches torch.compile off: unset it, and restart"
    if torch.cuda.is_available() and not version_of("triton"):
        return "triton is not installed, and torch.compile needs it on this GPU"
    usual = ("cl",) if sys.platform == "win32" else ("c++", "g++", "clang++")
    if not any(map(shutil.which, (os.environ.get("CXX", ""), *usual))):
        return "no C++ compiler was found, and torch.compile needs one on the CPU"
    return None


# Claims.


_IF_NOT = """\
  If you changed a cell above, that may be the reason: restart the kernel
  and run all cells. If not, this machine differs from the page: run
  `python -m helpers doctor` in a terminal. The lesson goes on."""


def claim(text: str, condition: Any, why: str = "") -> None:
    """Say whether *text* holds, as *condition* found out just now.

    A false claim shows what was claimed and the values that were found instead.  It
    raises ClaimFailed in strict mode (CI); a reader is told *why* it should hold and
    what to do, and goes on.  *condition* is a bool, or a numpy or torch bool with one
    element; anything else raises TypeError, because a claim about a list or a
    function could never fail.
    """
    if not isinstance(text, str) or not text.strip():
        raise TypeError("claim(text, condition): text says in words what holds")
    lesson.claims[text] = holds = _as_bool(text, condition)
    if holds:
        verdict(Sign.HOLDS, text, f"✓ holds: {text}")
        return
    found = "".join(f"\n  {line}" for line in _sides(inspect.currentframe().f_back))
    if strict():
        raise ClaimFailed((f"{text}. {why}" if why else text) + found)
    reason = f"\n  Why it should: {why}" if why else ""
    told = f"{text}{found}{reason}\n{_IF_NOT}"
    verdict(Sign.FAILS, told, f"✗ does not hold here: {told}")


def _as_bool(text: str, condition: Any) -> bool:
    if isinstance(condition, bool):
        return condition
    # numpy.bool and a torch tensor both say their dtype and give their item.
    is_bool = str(getattr(condition, "dtype", "")) in ("bool", "torch.bool")
    if is_bool and all(length == 1 for length in condition.shape):
        return bool(condition.item())
    raise TypeError(
        f"claim {text!r}: the condition is {condition!r:.60}, not True or False: "
        "compare it with something, as in `graphs == 2`; of several answers, say "
        ".all() or .any()"
    )


def _sides(frame: FrameType) -> Iterator[str]:
    """Yield what the call of claim in *frame* claimed, and the values in it.

    Nothing is called again: only names, attributes, items, lengths and sums of them
    are read once more.
    """
    condition = _condition(frame)
    if condition is None:
        return
    yield f"Claimed: {ast.unparse(condition)}"
    for source in dict.fromkeys(map(ast.unparse, _readable(condition))):
        try:
            value = eval(source, frame.f_globals, frame.f_locals)
        except Exception:  # a value that cannot be read any more, whatever it is
            continue
        if not callable(value) and not inspect.ismodule(value):
            yield f"Found: {source} is {textwrap.shorten(repr(value), 200)}"


def _condition(frame: FrameType) -> ast.expr | None:
    """Return the condition of the call that runs in *frame*, found by its position.

    None where there is no source, as in a shell, and for ``claim(*both)``.
    """
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    place = inspect.getframeinfo(frame).positions
    try:
        nodes = ast.walk(ast.parse("".join(lines)))
    except SyntaxError:  # a file that is being edited
        return None
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        if place == tuple(getattr(call, name) for name in place._fields):
            named = [word.value for word in call.keywords if word.arg == "condition"]
            return next(iter([*call.args[1:2], *named]), None)
    return None


_READ = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Tuple),
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context),
)


def _readable(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the largest parts of a condition that can be read without calling."""
    is_length = isinstance(node, ast.Call) and ast.unparse(node.func) == "len"
    is_negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    whole = node.args[0] if is_length else node
    if isinstance(node, ast.Constant) or not isinstance(node, ast.expr):
        return
    if not is_negated and all(isinstance(part, _READ) for part in ast.walk(whole)):
        yield node
        return
    if isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
        parts = [node.generators[0].iter]  # the rest has names of its own
    elif isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        parts = [*receiver, *node.args]
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from _readable(part)


# Predictions: asked before, revealed after.


def predict(
    key: str, question: str, options: list[str], mine: int | str | None = None
) -> None:
    """Ask *question*, and keep the reader's guess in the reader's own file.

    *mine* is the number of an option, from 1, or its text; None asks for one.
    ValueError names the options when it is neither.
    """
    choices = tuple(options)
    texts = {text for text in choices if isinstance(text, str)}
    if len(texts) < max(2, len(choices)):
        raise ValueError(f"{key}: options must be two or more different texts")
    lesson.questions[key] = choices
    print(f"{key}  {question}")
    if mine is None and not _guess(key) and watched():
        _show_buttons(key, choices)
        return
    print("\n".join(f"  {n}. {text}" for n, text in enumerate(choices, 1)))
    if mine is not None:
        guess = _chosen(key, choices, mine)
        lesson.progress.put("predictions", key, {"guess": guess})
        print(f"Your guess: {guess}")
    elif guess := _guess(key):
        print(f"Your guess on record: {guess}")
    else:
        numbers = ", ".join(str(n) for n in range(1, len(choices)))
        print(f"Your guess: none yet. Set mine={numbers} or {len(choices)}, run again.")


def _show_buttons(key: str, choices: tuple[str, ...]) -> None:
    """Show a button for each option; a click keeps the guess, and may be repeated."""
    import ipywidgets
    from IPython.display import display

    said = ipywidgets.Label("Your guess: click one")
    fits = ipywidgets.Layout(width="auto", max_width="100%")
    buttons = [ipywidgets.Button(description=text, layout=fits) for text in choices]

    def keep(clicked: Any) -> None:
        lesson.progress.put("predictions", key, {"guess": clicked.description})
        said.value = f"Your guess: {clicked.description}"
        for button in buttons:
            button.button_style = "info" if button is clicked else ""

    for button in buttons:
        button.on_click(keep)
    row = ipywidgets.Layout(flex_flow="row wrap")
    display(ipywidgets.VBox([ipywidgets.Box(buttons, layout=row), said]))


def _chosen(key: str, choices: tuple[str, ...], mine: int | str) -> str:
    if mine in choices:
        return mine
    if type(mine) is int and 1 <= mine <= len(choices):
        return choices[mine - 1]
    listed = "; ".join(f"{n} for {text!r}" for n, text in enumerate(choices, 1))
    raise ValueError(f"{key}: mine={mine!r} is none of the options. Write {listed}.")


def _guess(key: str) -> str | None:
    """Return the guess on record, unless the course has changed its options."""
    guess = lesson.progress.read()["predictions"].get(key, {}).get("guess")
    return guess if guess in lesson.questions[key] else None


_NO_GUESS = "No guess on record. Guess before you look: a surprise is remembered."


def reveal(key: str, observed: str) -> None:
    """Print what the machine says, and whether the reader's guess was right.

    *observed* is computed just before, and must be one of the options: when it is
    not, the page is wrong here, which raises ClaimFailed in strict mode.
    """
    problem = None
    if key not in lesson.questions:
        problem = f"{key}: run the cell with predict({key!r}, ...) first"
    elif observed not in lesson.questions[key]:
        problem = (
            f"{key}: the machine says {observed!r}, which is none of the options. "
            "Either a cell above was changed, or the page is wrong here. What to do: "
            f"{DOCTOR}."
        )
    if problem and strict():
        raise ClaimFailed(problem)
    if problem:
        print(problem)
        return
    guess = _guess(key)
    right = guess == observed
    if guess is not None:
        lesson.progress.put("predictions", key, {"guess": guess, "right": right})
    if guess is None:
        sign, yours = Sign.OPEN, _NO_GUESS
    elif right:
        sign, yours = Sign.RIGHT, "You said so too."
    else:
        sign, yours = Sign.WRONG, f"You said: {guess}"
    told = f"{key}  The machine says: {observed}\n{yours}"
    verdict(sign, told, told)
