"""Two real processes: a command of torchrun, run for real, and what they left.

    terminal("torchrun --standalone --nproc-per-node 2 train_two_ranks.py")
    on_two_ranks("ways", around, inside)    functions of the page, on each rank

torchrun finds a free port.  What was started is stopped when the time is over,
when something fails, and when the reader interrupts.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from helpers.results import write_atomically

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "train_two_ranks.py"
# What torch writes in front of each line of a log.
STAMP = re.compile(r"^(\[rank\d+\]:)?\[?[VIWE]\d{4} [\d:.]+ .*?\] ?", re.M)
# What says nothing about the program: the profiler's own lines, and the like.
NOISE = re.compile(
    r"^(USDT|Extension modules|.*Profiler record function|.*socket\.cpp).*\n",
    re.M,
)

# On which a process says where it stands; Windows sends the other one only.
ABORT = signal.SIGABRT if os.name == "posix" else signal.SIGTERM


class LaunchFailed(RuntimeError):
    """The processes did not end as they should; with what they said."""


@dataclass(frozen=True)
class Launch:
    """What a launch left: exit codes, words of torchrun and of each rank."""

    codes: tuple[int, ...]
    torchrun: str
    ranks: tuple[str, ...]

    def __str__(self) -> str:
        said = [*self.ranks, self.torchrun]
        return "\n".join(filter(None, map(str.strip, said)))


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


def terminal(*commands: str, limit: float = 300) -> Launch:
    """Run *commands* of torchrun at the same time, one for each node.

    They run beside a copy of the example, as typed.  Words are kept apart by
    rank, and sorted.
    """
    _two.stop()  # the cores are for the command
    words = [shlex.split(command) for command in commands]
    for first, *_ in words:
        if first != "torchrun":
            raise ValueError(f"not a command of torchrun: {first}")
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(EXAMPLE, place)
        with _Running([rest for _, *rest in words], Path(place)) as running:
            return running.wait(limit)


class _Running:
    """Commands of torchrun that run; when left, stopped with all ranks."""

    def __init__(self, commands: Sequence[list[str]], folder: Path) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.logs = Path(self.temporary.name)
        self.processes: list[subprocess.Popen[Any]] = []
        try:
            for n, words in enumerate(commands):
                _port_is_free(words)
                apart = ["--log-dir", f"{self.logs}/{n}", "--redirects", "3"]
                torchrun = [sys.executable, "-m", "torch.distributed.run"]
                with (self.logs / f"node{n}.txt").open("w") as output:
                    process = subprocess.Popen(
                        [*torchrun, *apart, *words],
                        cwd=folder,
                        env=_environment(),
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                self.processes.append(process)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def ended(self) -> bool:
        return all(process.poll() is not None for process in self.processes)

    def wait(self, limit: float, until: Callable[[], bool] = lambda: False) -> Launch:
        """Wait for the end, or *until* something holds; return what was said.

        Stops all of them and raises LaunchFailed once the time is over.
        """
        deadline = time.monotonic() + limit
        while not self.ended() and not until():
            if time.monotonic() > deadline:
                _stop(self.processes, ABORT)
                raise LaunchFailed(
                    f"stopped after {limit:g} seconds: a rank waits for one,"
                    " or this machine is very slow. They said:\n"
                    f"{self.said()}"
                )
            time.sleep(0.02)
        return self.said()

    def said(self) -> Launch:
        files = sorted(self.logs.glob("node*.txt"))
        torchrun = "\n".join(_clean(f.read_text(errors="replace")) for f in files)
        codes = tuple(process.returncode for process in self.processes)
        return Launch(codes, torchrun, _words_of_ranks(self.logs))

    def stop(self) -> None:
        _stop(self.processes)
        self.temporary.cleanup()


def _environment() -> dict[str, str]:
    """Return the variables of a rank: one thread, the course on its path.

    Without a test of the C++ compiler, which each process would run anew.  A
    process that is aborted says first which lines its threads had come to.
    """
    own = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    own["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
    path = [str(HERE.parents[1]), str(HERE.parents[2])]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    own["PYTHONPATH"] = os.pathsep.join(path)
    own["PYTHONWARNINGS"], own["KINETO_LOG_LEVEL"] = "ignore", "99"
    own["PYTHONFAULTHANDLER"] = "1"
    # The last are left over from another launch: torchrun would believe them.
    unwanted = "TORCH_LOGS TORCH_TRACE TORCH_DISTRIBUTED_DEBUG TORCHELASTIC "
    unwanted += "RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT"
    off = tuple(unwanted.split())
    kept = {k: v for k, v in os.environ.items() if not k.startswith(off)}
    return {**kept, **own}


def _port_is_free(words: Sequence[str]) -> None:
    """Raise LaunchFailed where somebody else has the port asked for."""
    text = " ".join(words).replace("=", " ")
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


def free_port() -> int:
    """Return a port that is free now; somebody may take it in a moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _stop(
    processes: Sequence[subprocess.Popen[Any]], how: int = signal.SIGTERM
) -> None:
    """End what still runs, and its children: ranks outlive torchrun."""
    family = []
    for process in processes:
        if process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                family += psutil.Process(process.pid).children(recursive=True)
                family.append(psutil.Process(process.pid))
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(how)
    _, alive = psutil.wait_procs(family, timeout=3)
    for member in alive:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    for process in processes:
        process.wait()


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


# --- functions of the page, on each rank -----------------------------------


def on_two_ranks(
    task: str, *functions: Callable[..., Any], limit: float = 400, **given: Any
) -> list[Any]:
    """Run a task of ``in_a_rank`` on two ranks, and return what each found.

    The functions travel as text, with what they use: see `shipped`.  The ranks
    stay for the next task, until the kernel ends or something fails.
    """
    return _two.run(task, functions, given, limit)


def until_it_fails(
    task: str, *functions: Callable[..., Any], limit: float = 300, **given: Any
) -> Launch:
    """Run a task after which the ranks do not go on; return what was said."""
    try:
        _two.ask(task, functions, given)
        return _two.running.wait(limit)
    finally:
        _two.stop()


class _Two:
    """Two ranks that wait for tasks, until one of them fails."""

    def __init__(self) -> None:
        self.running: _Running | None = None
        self.number = 0

    def start(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.folder, self.number = Path(self.temporary.name), 0
        words = ["--standalone", "--nproc-per-node", "2"]
        words += [HERE / "in_a_rank.py", self.folder, os.getpid()]
        self.running = _Running([[*map(str, words)]], self.folder)

    def stop(self) -> None:
        if self.running:
            self.running.stop()
            self.temporary.cleanup()
            self.running = None

    def ask(self, task: str, functions: Sequence[Any], given: dict[str, Any]) -> None:
        """Lay a task before the ranks."""
        text = shipped(functions)
        if self.running is None or self.running.ended():
            self.stop()
            self.start()
        self.number += 1
        page = self.folder / f"page{self.number}.py"
        page.write_text(text, encoding="utf-8")
        names = [f.__name__ for f in functions]
        job = json.dumps({"task": task, "names": names, "given": given})
        write_atomically(self.folder / f"job{self.number}.json", job)

    def records(self) -> list[Any]:
        """Return what each rank found in this task, or False."""
        files = (self.folder / f"rank{rank}-{self.number}.json" for rank in (0, 1))
        return [f.exists() and json.loads(f.read_text("utf-8")) for f in files]

    def end(self) -> str:
        """Return what torchrun says of the ranks that ended, if it knows."""
        with suppress(LaunchFailed):
            self.running.wait(5)
        said = self.running.said().torchrun
        return said[said.find("Failures:") :] if "Failures:" in said else ""

    def run(
        self, task: str, functions: Sequence[Any], given: Any, limit: float
    ) -> list[Any]:
        done = False
        try:
            self.ask(task, functions, given)

            def answered() -> bool:
                found = self.records()
                return all(found) or any(f and "error" in f for f in found)

            launch = self.running.wait(limit, answered)
            found = self.records()
            for rank, record in enumerate(found):
                if record and "error" in record:
                    raise LaunchFailed(
                        f"rank {rank} raised: {record['error']}\n{self.end()}"
                    )
            if not all(found):
                raise LaunchFailed(f"a rank ended before it was done:\n{launch}")
            done = True
            return found
        finally:
            if not done:  # also where the reader interrupts
                self.stop()


_two = _Two()
atexit.register(_two.stop)


def shipped(functions: Sequence[Callable[..., Any]]) -> str:
    """Return a module of these functions and what they use of the page."""
    lines: dict[str, str] = {}
    for function in functions:
        _ship(function, lines)
    return "\n".join(lines.values())


def _ship(function: Callable[..., Any], lines: dict[str, str]) -> None:
    """Add the source of a function to *lines*, after what it uses."""
    if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
        raise TypeError(f"a function made by def was asked for, not {function!r:.60}")
    if function.__name__ in lines:
        return
    lines[function.__name__] = ""  # it may call itself
    text = textwrap.dedent(inspect.getsource(function))
    nodes = [*ast.walk(ast.parse(text))]  # decorators and annotations, too
    for name in sorted({n.id for n in nodes if isinstance(n, ast.Name)}):
        if name in function.__globals__ and not hasattr(builtins, name):
            _ship_name(name, function.__globals__[name], lines)
    del lines[function.__name__]
    lines[function.__name__] = text


def _ship_name(name: str, value: Any, lines: dict[str, str]) -> None:
    if name in lines:
        return
    module = getattr(value, "__module__", None)
    if isinstance(value, types.ModuleType):
        lines[name] = f"import {value.__name__} as {name}"
    elif isinstance(value, types.FunctionType) and module == "__main__":
        _ship(value, lines)
    elif isinstance(value, bool | int | float | str | tuple | list | dict):
        lines[name] = f"{name} = {value!r}"
    elif module and module != "__main__" and hasattr(value, "__qualname__"):
        lines[name] = f"from {module} import {value.__qualname__} as {name}"
