"""A process that has imported what starts need: each of these begins as a copy of it.

    python -m torch_checkup.warm < orders

A copy has its own memory, environment and folders, and goes on where the imports are
done: no first call has begun.  That saves a check-up the seconds of the imports, which
no start counts.  All copies have one seed of Python's hashes: what fills a cache for
them must be another process, or a key that depends on it would be found.  Only Linux
copies a process safely, and only one whose imports start no threads and no GPU;
elsewhere, and where an import fails, `Warm.copy` gives none.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn

from . import sandbox
from .helpers.children import end, start
from .helpers.errors import Unavailable

_IMPORTS = (
    *("torch", "torch._inductor.async_compile", "torch._inductor.compile_fx"),
    *(f"{__package__}.helpers.{name}" for name in ("judge", "outcomes", "session")),
)


class Warm:
    """Copies of one process, for starts of *target*; it begins with the first copy."""

    def __init__(self, target: str, patience: float) -> None:
        self._target, self._patience = target, patience
        self._process: subprocess.Popen | None = None
        self._fit = sys.platform == "linux"

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process:
            end(self._process)

    def copy(
        self, order: dict[str, Any], env: Mapping[str, str], said: str
    ) -> Copy | None:
        """Return a copy that does what *order* says; its errors go to the file *said*.

        Return None where none can be made: a new process has to do it.
        """
        if self._fit and not self._process:
            self._begin()
        if not self._fit:
            return None
        copied = {"order": order, "env": dict(env), "said": said}
        self._process.stdin.write(f"{json.dumps(copied)}\n".encode())
        return Copy(self._process, int(_line(self._process) or 0))

    def _begin(self) -> None:
        """Start the process, and wait until it has imported all, if it can."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        pipes["stderr"] = subprocess.DEVNULL
        path, words = sandbox.folders_of(self._target), ("-m", __name__, self._target)
        try:
            self._process = start(*words, path=path, **pipes)
        except Unavailable:
            self._fit = False
            return
        ready, *_ = select.select([self._process.stdout], [], [], self._patience)
        self._fit = bool(ready) and _line(self._process) == "ready"


class Copy:
    """A process that another one made: what `subprocess.Popen` has of its own."""

    def __init__(self, parent: subprocess.Popen, pid: int) -> None:
        self._parent, self.pid, self._status = parent, pid, None

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        if self._status is None and select.select([self._parent.stdout], [], [], 0)[0]:
            self.wait()
        return self._status

    def wait(self) -> int:
        """Return its exit status when it has ended."""
        if self._status is None:
            self._status = int(_line(self._parent) or -9)  # or its parent died
        return self._status

    def kill(self) -> None:
        """End it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, 9)


def _line(process: subprocess.Popen) -> str:
    """Return the next line of a process: nothing behind it is read."""
    line = b""
    while (one := process.stdout.read(1)) and one != b"\n":
        line += one
    return line.decode()


def main(target: str) -> None:
    """Import all, and make a copy for each order that comes."""
    sandbox.end_with_parent()
    try:
        for name in _IMPORTS:
            import_module(name)
        before = _threads()
        sandbox.IMPORTED[target] = sandbox.module_function(target)
        torch = sys.modules["torch"]
        fit = _threads() == before and not torch.cuda.is_initialized()
    except BaseException:  # whoever needs it finds the same, and tells it
        fit = False
    print("ready" if fit else "unfit", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _follow(**json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _follow(order: dict[str, Any], env: dict[str, str], said: str) -> NoReturn:
    """Do what an order says, as a process by itself, and end."""
    os.setsid()
    for place, number in ((os.devnull, 0), (os.devnull, 1), (said, 2)):
        os.dup2(os.open(place, os.O_RDWR | os.O_CREAT), number)
    os.environ.update(env)
    tempfile.tempdir = None
    status = 0
    try:
        sandbox.main(order)
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
