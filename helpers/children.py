"""A process that is ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil


def start(
    *words: str,
    path: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.Popen:
    """Start this Python with *words* after it, in its own session.

    It imports what this process can, and looks in the folders of *path* first.  *env*
    has variables for it in addition to those of this process; *options* are those of
    ``subprocess.Popen``.  `end` ends it.
    """
    folders = os.pathsep.join(p or os.getcwd() for p in (*path, *sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", *words],  # -P: in the order of that path
        env={**os.environ, "PYTHONPATH": folders, **(env or {})},
        start_new_session=True,
        **options,
    )


def end(child: subprocess.Popen, patience: float = 0.0) -> int:
    """End what `start` gave and all that it started; return its exit status.

    With *patience*, it is asked (SIGTERM), and has so many seconds to end by itself.
    What outlives it is ended then.  Half a library, of a compiler that is ended, would
    break the next run: it goes too.
    """
    everyone = family(child.pid)  # while it lives, for orphans have no parent
    if patience:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(patience)
    outputs: list[str] = []
    for one in dict.fromkeys((*everyone, *family(child.pid))):
        with suppress(psutil.Error):
            outputs += [out for o, out in pairwise(one.cmdline()) if o == "-o"]
            one.kill()
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    status = child.wait()
    for output in outputs:
        if output.endswith(".so"):
            Path(output).unlink(missing_ok=True)
    return status


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all that it started, as far as they still live."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []
