"""Runs notebooks where something is missing or in the way, and prints what is said.

    python -m tests.proof hostile                      # some notebooks, every condition
    python -m tests.proof hostile --condition "no triton" notebooks/*.ipynb

A cell may fail there, but it must say what to do, and nothing may hang or be lost.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from tests.proof import common
from tests.proof.notice import differences
from tests.refresh import ROOT, a_notebook, notebooks, read, texts
from tools.commands import command

# The quickest that need a compiler, Triton, a cache, and files of their own.
USUAL = [path for path in notebooks() if path.stem[:2] in ("01", "07", "08")]
AS_STORED, DIFFERS, SAYS = "as stored", "prints something else", "says what to do"
NOT_RUN = "not run"
LOST, BARE, HANGS = BAD = "work lost", "bare error", "no end"
OUTCOMES = (AS_STORED, DIFFERS, SAYS, NOT_RUN, *BAD)  # the best first
# What the course says below an error, and instead of one.
ADVICE = re.compile(r"What to do: (.+)|(Not ready: .+)|(✗ does not hold here: .+)")


@dataclass
class Place:
    """What one visit has for itself: folders, variables, and a way to be started."""

    folder: Path
    course: Path = ROOT
    variables: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def path(self) -> str:
        """Where Python finds the helpers, and what belongs to the pages."""
        return os.pathsep.join(map(str, (self.course, self.course / "notebooks")))

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of the visit; an empty value takes one away."""
        usual = {
            "COURSE_STRICT": "0",
            "HELPERS_QUIET": "1",
            "CI": "",
            "COURSE_HOME": str(self.folder / "home"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.cache),
            "PYTHONPATH": self.path,
        }
        whole = {**os.environ, **usual, **self.variables}
        return {name: value for name, value in whole.items() if value}


class CannotBe(Exception):
    """This machine cannot make such a place; says why."""


@dataclass(frozen=True)
class Condition:
    """One such place, what a reader would meet there, and how the page is read."""

    name: str
    meets: str
    prepare: Callable[[Place], None] = lambda place: None
    steps: tuple[str, ...] = ("once",)
    between: Callable[[Place], None] = lambda place: None
    keeps: str = ""  # a text that the last reading must show


# --- the places -------------------------------------------------------------------


def _no_triton(place: Place) -> None:
    hidden = Path(__file__).parent / "hidden"
    path = f"{hidden}{os.pathsep}{place.path}"
    place.variables |= {"PYTHONPATH": path, "HIDDEN": "triton"}


def _no_compiler(place: Place) -> None:
    """Link every program but compilers into one folder, and leave only that."""
    compilers = ("c++", "g++", "gcc", "cc", "clang", "cpp", "x86_64-linux-gnu-")
    programs = place.folder / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            link = programs / program.name
            if not link.is_symlink() and not program.name.startswith(compilers):
                link.symlink_to(program)
    place.variables |= {"PATH": str(programs), "CXX": "", "CC": ""}


def _read_only(place: Place) -> None:
    mount = 'mount --bind "$0" "$0"; mount -o remount,ro,bind "$0"; cd "$0"; exec "$@"'
    _within(place, mount, place.course)


def _within(place: Place, mount: str, folder: Path) -> None:
    """Start the visit where *mount* has been done to *folder*, and nowhere else."""
    program = shutil.which("unshare")
    if program is None or subprocess.run([program, "-rm", "true"]).returncode:
        raise CannotBe("this machine makes no namespaces (unshare)")
    place.prefix = ("unshare", "-rm", "sh", "-ec", mount, str(folder))


def _small_cache(place: Place) -> None:
    """Mount a small disk, for this visit alone, as the compile cache."""
    place.cache.mkdir()
    _within(place, 'mount -t tmpfs -o size=64k tmpfs "$0"; exec "$@"', place.cache)


def _odd_home(place: Place) -> None:
    """Put the course, the caches and everything temporary below an odd name."""
    home = place.folder / "Ærøskøbing, 東京 и дом"
    place.course = home / "torch compile course"
    for part in ("notebooks", "helpers", "torch_checkup", "data"):
        shutil.copytree(ROOT / part, place.course / part)
    (home / "tmp").mkdir()
    unset = ("COURSE_HOME", "TORCHINDUCTOR_CACHE_DIR", "XDG_DATA_HOME")
    place.variables |= dict.fromkeys(unset, "")
    place.variables |= {"HOME": str(home), "TMPDIR": str(home / "tmp")}


def _damage(place: Place) -> None:
    """Cut one file of the cache in half, turn a byte of the next, and so on."""
    files = sorted(file for file in place.cache.rglob("*") if file.is_file())
    for number, file in enumerate(files):
        content = file.read_bytes()
        half = len(content) // 2
        turned = content[:half] + b"\xff" + content[half + 1 :]
        file.write_bytes(turned if number % 2 else content[:half])


CONDITIONS = {
    condition.name: condition
    for condition in (
        Condition("no triton", "macOS, Windows, a bare CPU build", _no_triton),
        Condition("no C++ compiler", "a fresh laptop, a thin container", _no_compiler),
        Condition("read-only checkout", "a shared course folder", _read_only),
        Condition("a full cache folder", "a quota, a small disk", _small_cache),
        Condition("an odd home folder", "spaces and other alphabets", _odd_home),
        Condition(
            "a damaged cache",
            "a full disk, a power cut",
            steps=("once", "once"),
            between=_damage,
        ),
        Condition(
            "killed half way, run again",
            "memory, a closed lid",
            steps=("killed", "once"),
            keeps="Your guess on record: ",
        ),
        Condition("run twice in one kernel", "Run All, again", steps=("twice",)),
    )
}


# --- a visit ----------------------------------------------------------------------


def visit(condition: Condition, path: Path) -> tuple[str, str]:
    """Read one notebook under a condition; return how it went, and what it said."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder))
        try:
            condition.prepare(place)
        except CannotBe as why:
            return NOT_RUN, str(why)
        result = place.folder / "result.ipynb"
        for step in condition.steps:
            ended = _run(place, path, result, step)
            if ended and step != "killed":
                return HANGS, ended
            condition.between(place)
        outcome, said = judged(condition, read(path), read(result))
        return outcome, said.replace(str(place.folder), "…")


def _run(place: Place, path: Path, result: Path, how: str) -> str:
    """Run the notebook; return what stopped it, or ""."""
    notebook = place.course / path.relative_to(ROOT)
    command = [*place.prefix, sys.executable, "-m", "tests.proof.visit"]
    command += map(str, (notebook, result, how))
    try:
        done = subprocess.run(
            command,
            env=place.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=15 * 60,
        )
    except subprocess.TimeoutExpired:
        return "not done after 15 minutes"
    said = done.stderr if done.returncode else done.stdout
    return said.rstrip("\n").split("\n")[-1]


def judged(
    condition: Condition, stored: NotebookNode, ran: NotebookNode
) -> tuple[str, str]:
    """Return how a finished reading went, and the first thing that it said."""
    for output in (out for cell in ran.cells for out in cell.get("outputs", [])):
        if output.output_type == "error":
            text = "\n".join([output.evalue, *output.traceback])
            if not ADVICE.search(text):
                return BARE, f"{output.ename}: {output.evalue}".strip().split("\n")[0]
    shown = [pair for cell in ran.cells for pair in texts(cell)]
    said = "\n".join(text for kind, text in shown if kind != "text/html")
    if condition.keeps not in said:
        return LOST, f"nothing says {condition.keeps!r}"
    if advice := ADVICE.search(said):
        return SAYS, advice[0]
    if condition.keeps:
        return AS_STORED, ""
    for number, cell in enumerate(ran.cells):  # each reading, where there were two
        page = stored.cells[number % len(stored.cells)]
        for _, other in differences(page, cell):
            return DIFFERS, other
    return AS_STORED, ""


def row(condition: Condition, found: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Return what is recorded of a condition, over its notebooks."""
    by_outcome = [
        f"{outcome}: {', '.join(n for n, (own, _) in found.items() if own == outcome)}"
        for outcome in dict.fromkeys(outcome for outcome, _ in found.values())
    ]
    _, said = max(found.values(), key=lambda went: OUTCOMES.index(went[0]))
    return {
        "condition": condition.name,
        "as on, with": condition.meets,
        "notebooks": "; ".join(by_outcome),
        "one of them said": said[:160],
    }


def main(arguments: list[str]) -> int:
    """Visit what was asked; return 1 where a row is not good."""
    parser = command("tests.proof hostile", __doc__, "a row is not good")
    parser.add_argument("notebook", nargs="*", type=a_notebook, default=USUAL)
    parser.add_argument("--condition", action="append", choices=list(CONDITIONS))
    asked = parser.parse_args(arguments)
    bad = 0
    for name in asked.condition or CONDITIONS:
        paths = [path.resolve() for path in asked.notebook]
        found = {path.stem[:2]: visit(CONDITIONS[name], path) for path in paths}
        bad += any(outcome in BAD for outcome, _ in found.values())
        done = row(CONDITIONS[name], found)
        print(*done.values(), sep=" | ", flush=True)
        common.put("hostile", "condition", done, CONDITIONS)
    print(f"{bad} conditions are not as they should be")
    return int(bad > 0)
