"""Get a kernel ready that is not the course's own: Colab, Kaggle, a hub, VS Code.

The first cell of a page calls this where the course was not importable.  It brings
packages that are missing and leaves the others, torch above all, as they are.  An old
Python must be able to read this file, so it uses the standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

NEEDED = (
    *("numpy", "psutil", "matplotlib", "tqdm", "msgspec", "jinja2", "pygments"),
    *("ipywidgets", "platformdirs", "filelock", "expecttest"),
)
"""What pages need besides torch; where a library of Practice is missing, its cells say
so themselves."""


class CannotRun(Exception):
    """A kernel in which no page can run: a notebook shows the one sentence."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def get_ready(home: Path, keep: Path | None) -> None:
    """Say which torch is here, and what differs; bring what is missing, once.

    *home* has the course; one that was fetched is copied to *keep*, for other pages.
    """
    supported, stored = _versions(home)
    found = "{}.{}".format(*sys.version_info)
    if sys.version_info < (3, 11):
        raise CannotRun(_says(f"Python {found}", "Python 3.11 to 3.14", ""))
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise CannotRun(_says("no torch", supported, "%pip install torch")) from None
    if _number(torch) < _number(supported):
        bring = f"%pip install torch=={stored}, which replaces yours, and a restart"
        raise CannotRun(_says(f"torch {torch}", supported, bring))
    _bring([name for name in NEEDED if not _installed(name)])
    if keep:
        _copy(home, keep)
    if home not in Path.cwd().parents:  # pages read files beside them
        os.chdir(home / "notebooks")
    both = str(home), str(home / "notebooks")  # for the processes that pages start
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (*both, os.environ.get("PYTHONPATH")))
    )
    same = torch.split("+")[0] == stored
    differs = "" if same else f", and the outputs on this page are from torch {stored}"
    print(f"torch {torch} is here and stays{differs}.")
    if not same:
        print(
            "What stands between ⟨ and ⟩ differs on each machine; counts, messages and "
            f"kernels may differ with torch. {supported} are supported."
        )


def _says(found: str, supported: str, bring: str) -> str:
    remedy = f" {bring} brings it." if bring else " Choose another kernel."
    return (
        f"This kernel has {found}, and the pages need {supported}.{remedy} What works "
        "without: reading, with the stored outputs."
    )


def _versions(home: Path) -> tuple[str, str]:
    """Return the range of torch that is supported, in words, and the one of outputs."""
    project = (home / "pyproject.toml").read_text("utf-8")
    oldest, beyond = re.findall(r'"torch>=(2\.\d+),<2\.(\d+)"', project)[0]
    pins = (home / "requirements.txt").read_text("utf-8")
    stored = re.findall(r"^torch==([\d.]+)", pins, re.M)[0]
    return f"torch {oldest} to 2.{int(beyond) - 1}", stored


def _number(words: str) -> list[int]:
    """Return the first two numbers of a version."""
    return [int(n) for n in re.findall(r"\d+", words)[:2]]


def _installed(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


def _bring(missing: list[str]) -> None:
    """Install packages that are missing; torch and what else is here stays."""
    if not missing:
        return
    print(f"Bringing {', '.join(missing)} ...")
    with tempfile.TemporaryDirectory() as place:
        pins = Path(place, "here.txt")
        fixed = [name for name in ("torch", "triton", "numpy") if _installed(name)]
        lines = (f"{name}=={metadata.version(name)}\n" for name in fixed)
        pins.write_text("".join(lines))
        if _install(["-c", str(pins), *missing]):
            return
        own = tempfile.mkdtemp()  # this Python's folder may be read-only
        if _install(["--target", own, "-c", str(pins), *missing]):
            sys.path.append(own)
            return
    names = " ".join(missing)
    raise CannotRun(
        f"{', '.join(missing)} could not be installed, without a network or a folder "
        f"to write to. `%pip install {names}`, then run this cell again. What works "
        "without: reading, with the stored outputs."
    )


def _install(words: list[str]) -> bool:
    """Install with pip, or with uv where this Python has no pip."""
    ways = [[sys.executable, "-m", "pip", "install", "-q", "--retries", "1", *words]]
    if uv := shutil.which("uv"):
        ways.append([uv, "pip", "install", "-q", "--python", sys.executable, *words])
    quiet: dict[str, int] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return any(not subprocess.call(way, **quiet) for way in ways)


def _copy(home: Path, keep: Path) -> None:
    """Keep the fetched course where the first cells of other pages look for it."""
    try:
        keep.parent.mkdir(parents=True, exist_ok=True)
        part = tempfile.mkdtemp(dir=str(keep.parent))
        shutil.copytree(str(home), f"{part}/course")
        os.replace(f"{part}/course", str(keep))
        os.rmdir(part)
    except OSError:  # no place of one's own, or another kernel was first
        return
