"""Commands of torchrun, run for real, and what the ranks said and left.

    terminal("torchrun --standalone --nproc-per-node 2 train_two_ranks.py")

They run in a folder for this page.  What was started is stopped when the time is
over, when something fails, and when the reader interrupts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from helpers import children

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_two_ranks.py"
# What torch writes in front of each line of a log.
STAMP = re.compile(r"^(\[rank\d+\]:)?\[?[VIWE]\d{4} [\d:.]+ .*?\] ?", re.M)
# What says nothing about the program: the profiler's own lines, and the like.
NOISE = re.compile(
    r"^(USDT|Extension modules|.*Profiler record function|.*socket\.cpp).*\n",
    re.M,
)
# Of each rank: one thread, no test of the C++ compiler, which each would run anew,
# and a process that is aborted says first which lines its threads had come to.
VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONWARNINGS": "ignore",
    "KINETO_LOG_LEVEL": "99",
    "TORCH_DISTRIBUTED_DEBUG": "OFF",
}
# On which a process says where it stands; Windows sends the other one only.
ABORT = signal.SIGABRT if os.name == "posix" else signal.SIGTERM


class LaunchFailed(RuntimeError):
    """The processes did not end as they should; with what they said."""


@dataclass(frozen=True)
class Launch:
    """What a launch left: exit codes, words of torchrun and of each rank.

    Its text has the words of torchrun where one of them did not end well.  ``left`` is
    what each rank left in a file, where its script does that.
    """

    codes: tuple[int | None, ...]
    torchrun: str
    ranks: tuple[str, ...]
    left: tuple[Any, ...] = ()

    def __str__(self) -> str:
        # A node whose rendezvous went home first says so at length, and ends well.
        complaint = self.torchrun if set(self.codes) != {0} else ""
        return "\n".join(filter(None, map(str.strip, [*self.ranks, complaint])))

    @property
    def found(self) -> tuple[Any, ...]:
        """What each rank found; raises LaunchFailed where one of them failed."""
        if any(self.codes) or not self.left:
            raise LaunchFailed(f"{self._why()}\n{self}")
        return self.left

    def _why(self) -> str:
        """Return the error of the rank that failed by itself, where one raised."""
        raised = re.findall(r"^(?:\[rank\d+\]: )?(\w+Error\b.*)", str(self), re.M)
        # Who hears no more of another rank was not the first.
        lost = re.compile("Connection (closed|reset) by peer")
        first = [error for error in raised if not lost.search(error)]
        return (first or ["a rank ended before it was done"])[0]


def piece(*names: str) -> str:
    """Return functions of the example's file as they stand there."""
    text = EXAMPLE.read_text(encoding="utf-8")
    found = []
    for name in names:
        match = re.search(rf"^def {name}\(.*?(?=^\S|\Z)", text, re.M | re.S)
        if match is None:
            raise ValueError(f"{EXAMPLE.name} has no function {name}")
        found.append(match[0].strip())
    return "\n\n".join(found)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def workplace() -> Path:
    """Return the page's folder, with a copy of the example; it goes with the kernel."""
    folder = Path(_temporary().name)
    if not (folder / EXAMPLE.name).exists():
        shutil.copy(EXAMPLE, folder)
    return folder


def terminal(*commands: str, limit: float = 300) -> Launch:
    """Run *commands* of torchrun at the same time, one for each node.

    They run in the page's folder, as typed.  Words are kept apart by rank, and
    sorted.

    Raises LaunchFailed where they take more than *limit* seconds, and where
    somebody else has the port that is asked for.
    """
    words = [shlex.split(command) for command in commands]
    for first, *rest in words:
        if first != "torchrun":
            raise ValueError(f"not a command of torchrun: {first}")
        _port_is_free(" ".join(rest))
    for old in workplace().glob("found-*.json"):
        old.unlink()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        logs, running = Path(place), []
        for node, (_, *rest) in enumerate(words):
            process = _start(rest, logs / f"node{node}")
            stack.callback(children.end, process)
            running.append(process)
        in_time = _wait(running, limit)
        launch = _left(running, logs)
    if not in_time:
        raise LaunchFailed(
            f"stopped after {limit:g} seconds: a rank waits for one, or this machine"
            f" is very slow. They said:\n{launch}"
        )
    return launch


def _start(words: Sequence[str], logs: Path) -> subprocess.Popen[Any]:
    apart = ["--log-dir", str(logs), "--redirects", "3"]
    torchrun = ["-m", "torch.distributed.run", *apart, *words]
    with logs.with_suffix(".txt").open("w") as output:
        files = {"stdout": output, "stderr": subprocess.STDOUT, "cwd": workplace()}
        return children.start(*torchrun, env=VARIABLES, **files)


def _wait(running: Sequence[subprocess.Popen[Any]], limit: float) -> bool:
    """Return whether all ended in time; if not, each says where it stands."""
    deadline = time.monotonic() + limit
    while any(process.poll() is None for process in running):
        if time.monotonic() > deadline:
            ranks = [r for p in running for r in children.family(p.pid)]
            for rank in reversed(ranks):  # before torchrun, which would end them
                with suppress(psutil.Error):
                    rank.send_signal(ABORT)
            psutil.wait_procs(ranks, timeout=3)
            return False
        time.sleep(0.02)
    return True


def _left(running: Sequence[subprocess.Popen[Any]], logs: Path) -> Launch:
    """Return what is there of a launch that ended."""
    torchrun = [_clean(file.read_text("utf-8")) for file in sorted(logs.glob("*.txt"))]
    files = sorted(workplace().glob("found-*.json"))
    return Launch(
        tuple(process.poll() for process in running),
        "\n".join(torchrun),
        _words_of_ranks(logs),
        tuple(json.loads(file.read_text("utf-8")) for file in files),
    )


def _port_is_free(options: str) -> None:
    """Raise LaunchFailed where somebody else has the port asked for.

    torchrun says nothing then, and waits.
    """
    text = options.replace("=", " ")
    asked = re.search(r"--(?:rdzv-endpoint \S+:|master-port )(\d+)", text)
    node = re.search(r"--node-rank (\d+)", text)
    if not asked or (node and node[1] != "0"):
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(asked[1])))
        except OSError as error:
            raise LaunchFailed(
                f"port {asked[1]} is taken on this machine ({error.strerror})."
                " Choose another, or let torchrun find one: --standalone"
            ) from error


def _clean(text: str) -> str:
    return STAMP.sub("", NOISE.sub("", text)).strip()


def _words_of_ranks(logs: Path) -> tuple[str, ...]:
    """Return what each rank wrote: its own lines, then torch's log."""
    texts = {}
    for file in sorted(logs.glob("*/*/attempt_*/*/stdout.log")):
        log = file.with_name("stderr.log")
        said = [f.read_text(errors="replace") for f in (file, log) if f.exists()]
        found = re.search(r"^rank (\d+)|\[rank(\d+)\]:", "\n".join(said), re.M)
        key = int(found[1] or found[2]) if found else len(texts)
        texts[key, str(file)] = "\n".join(filter(None, map(_clean, said)))
    return tuple(texts[key] for key in sorted(texts))
