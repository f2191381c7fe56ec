"""Frames of a stack or a traceback: which is the caller's line, and how it is named."""

from __future__ import annotations

import functools
import re
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePath
from traceback import FrameSummary

import torch

from .text import code_of

_TORCH = Path(torch.__file__).parent
_PASSES_ON = ("_dynamo", "_compile.py", "utils/_contextlib.py", "nn/modules/module.py")
_PLUMBING = ("<frozen", *(str(_TORCH / part) for part in _PASSES_ON))
_PYTHON = sysconfig.get_path("stdlib")
LIBRARY = "site-packages/"  # how the name of a library's file begins here
_FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')


@functools.lru_cache
def _installed_in(folder: PurePath) -> PurePath | None:
    """Return where the package was installed to whose files stand in *folder*.

    That may be any environment's, a user's, a system's, or what ``pip install
    --target`` filled: each package leaves its .dist-info next to it.
    """
    for place in (folder, *folder.parents):
        known = place.name in ("site-packages", "dist-packages")
        if known or (str(place) in sys.path and any(Path(place).glob("*.dist-info"))):
            return place
    return None


def is_plumbing(file: str) -> bool:
    """Return whether a file of torch or Python only passes a call on."""
    python = file.startswith(_PYTHON) and not _installed_in(PurePath(file).parent)
    return python or file.startswith(_PLUMBING)


def file_name(file: str) -> str:
    """Return a name that is the same on every machine."""
    if "ipykernel_" in file or file.startswith("<ipython"):
        return "the cell"
    path = PurePath(file)
    if home := _installed_in(path.parent):
        return LIBRARY + path.relative_to(home).as_posix()
    return path.name


def original_name(name: str) -> str:
    """Return the user's name of a lambda that resumes; torch collapses the others."""
    return re.sub(r"^(torch_dynamo_resume_in_)+|(_at_\d+)+$", "", name)


def line_of(frame: FrameSummary) -> str:
    """Return a line of somebody's file in words, with its source."""
    file, name = file_name(frame.filename), original_name(frame.name)
    return f"line {frame.lineno} of {file}, in {name}: {code_of(frame.line or '')}"


def frames_in(text: str) -> list[FrameSummary]:
    """Return the frames that a *text* of torch or Python lists."""
    return [FrameSummary(f, int(n), name) for f, n, name in _FRAME.findall(text)]


def own_of(frames: Sequence[FrameSummary]) -> FrameSummary | None:
    """Return the innermost frame that is the caller's, if one is."""
    own = [f for f in frames if not file_name(f.filename).startswith(LIBRARY)]
    return next((f for f in own[::-1] if not is_plumbing(f.filename)), None)


def line_in(traceback: str) -> str:
    """Return the caller's innermost line in the text of a *traceback*, or ''."""
    at = own_of(frames_in(traceback))
    return line_of(at) if at else ""
