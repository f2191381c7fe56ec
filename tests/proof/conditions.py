"""The places in which a notebook may have to run: what is missing, or in the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.refresh import ROOT

HIDDEN = Path(__file__).parent / "hidden"
COMPILERS = ("c++", "g++", "gcc", "cc", "clang", "clang++", "cpp", "x86_64-linux-gnu-")
NAME = "Ærøskøbing, 東京 и дом"
LO = 'ip link set lo up; exec "$@"'
READ_ONLY = 'mount --bind "$0" "$0"; mount -o remount,ro,bind "$0"; cd "$0"; exec "$@"'
LIMITED = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
GROUPS = Path("/sys/fs/cgroup")


@dataclass
class Place:
    """What one visit has for itself: folders, variables, and a way to be started."""

    folder: Path
    course: Path = ROOT
    variables: dict[str, str] = field(default_factory=dict)
    prefix: list[str] = field(default_factory=list)
    undo: Callable[[], None] = lambda: None

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of the visit; an empty value takes one away."""
        usual = {
            "COURSE_STRICT": "0",
            "COURSE_QUIET": "1",
            "CI": "",
            "COURSE_HOME": str(self.folder / "home"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.cache),
            "PYTHONPATH": str(self.course),
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
    copies: int = 1
    keeps: str = ""  # a text that the last reading must show


def _no_triton(place: Place) -> None:
    path = f"{HIDDEN}{os.pathsep}{place.course}"
    place.variables.update(PYTHONPATH=path, HIDDEN="triton")


def _no_compiler(place: Place) -> None:
    """Link every program but compilers into one folder, and leave only that."""
    programs = place.folder / "bin"
    programs.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(folder).glob("*"):
            link = programs / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    for program in programs.iterdir():
        if program.name.startswith(COMPILERS):
            program.unlink()
    place.variables.update(PATH=str(programs), CXX="", CC="")


def _no_network(place: Place) -> None:
    _namespaces("-rn")
    place.prefix += ["unshare", "-rn", "sh", "-ec", LO, "sh"]


def _read_only(place: Place) -> None:
    _namespaces("-rm")
    place.prefix += ["unshare", "-rm", "sh", "-ec", READ_ONLY, str(place.course)]


def _namespaces(kind: str) -> None:
    program = shutil.which("unshare")
    if program is None or subprocess.run([program, kind, "true"]).returncode:
        raise CannotBe("this machine makes no namespaces (unshare)")


def _odd_home(place: Place) -> None:
    """Put the course, the caches and everything temporary below an odd name."""
    home = place.folder / NAME
    place.course = home / "torch compile course"
    for part in ("notebooks", "helpers", "data"):
        shutil.copytree(ROOT / part, place.course / part)
    temporary = home / "tmp"
    temporary.mkdir()
    moved = dict.fromkeys(("HOME", "USERPROFILE"), str(home))
    unset = dict.fromkeys(
        ("COURSE_HOME", "TORCHINDUCTOR_CACHE_DIR", "XDG_DATA_HOME"), ""
    )
    place.variables.update(**moved, **unset, TMPDIR=str(temporary))


def _foreign(place: Place) -> None:
    """Speak Turkish in an 8-bit encoding: another decimal comma, another small I."""
    made = place.folder / "locale" / "tr_TR"
    made.parent.mkdir()
    command = ["localedef", "-c", "-i", "tr_TR", "-f", "ISO-8859-9", str(made)]
    if shutil.which("localedef"):
        subprocess.run(command, capture_output=True, check=False)
    if not made.exists():
        raise CannotBe("localedef cannot make a Turkish locale here")
    off = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LANG": ""}
    place.variables.update(off, LOCPATH=str(made.parent), LC_ALL="tr_TR")


def _one_thread(place: Place) -> None:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")
    place.variables.update(dict.fromkeys(names, "1"))
    if shutil.which("taskset"):
        core = min(os.sched_getaffinity(0))
        place.prefix += ["taskset", "-c", str(core)]


def _little_memory(place: Place) -> None:
    """Allow 2 GiB to the kernel and all that it starts."""
    new = (GROUPS / "cgroup.controllers").exists()
    group = (GROUPS if new else GROUPS / "memory") / f"course-{place.folder.name}"
    limit = "memory.max" if new else "memory.limit_in_bytes"
    try:
        group.mkdir(exist_ok=True)
        (group / limit).write_text(str(2 << 30))
    except OSError as error:
        raise CannotBe(f"this user may not limit memory ({error})") from error
    place.prefix += ["sh", "-ec", LIMITED, str(group)]
    place.undo = lambda: _dissolve(group)


def _dissolve(group: Path) -> None:
    """End what still runs in the group, such as compile workers, and remove it."""
    for _ in range(100):
        for process in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        with suppress(OSError):  # busy, until the last of them is gone
            return group.rmdir()
        time.sleep(0.1)
    raise CannotBe(f"{group} cannot be removed")


def _damage(place: Place) -> None:
    """Cut one file of the cache in half, turn a byte of the next, and so on."""
    files = sorted(file for file in place.cache.rglob("*") if file.is_file())
    for number, file in enumerate(files):
        content = file.read_bytes()
        half = len(content) // 2
        turned = content[:half] + b"\xff" + content[half + 1 :]
        file.write_bytes(turned if number % 2 else content[:half])


CONDITIONS = {
    each.name: each
    for each in (
        Condition("no triton", "macOS, Windows, a bare CPU build", _no_triton),
        Condition("no C++ compiler", "a fresh laptop, a thin container", _no_compiler),
        Condition("no network", "a train, a closed building", _no_network),
        Condition("read-only checkout", "a shared course folder", _read_only),
        Condition("an odd home folder", "spaces and other alphabets", _odd_home),
        Condition("a foreign locale", "Turkish, in an 8-bit encoding", _foreign),
        Condition("one thread", "a machine shared by many", _one_thread),
        Condition("2 GiB of memory", "a small machine, a hub", _little_memory),
        Condition(
            "a damaged cache",
            "a full disk, a power cut",
            steps=("once", "once"),
            between=_damage,
        ),
        Condition("two copies at once", "two tabs, one cache", copies=2),
        Condition(
            "killed half way, run again",
            "memory, a closed lid",
            steps=("killed", "once"),
            keeps="Your guess on record: ",
        ),
        Condition("run twice in one kernel", "Run All, again", steps=("twice",)),
        Condition("cells in reverse", "a confused reader", steps=("reversed",)),
    )
}
