"""Runs the programs of `since` on the torch of this Python, each in its own process.

    python -m tests.proof.since_child JOBS SECONDS

It writes its versions, reads rows from stdin, and writes a line of JSON for each.  The
processes are forked after torch is imported, which takes longer than most programs.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import pkgutil
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx

from helpers import _torch, correctness
from helpers.capture import breaks_among, given_calls
from helpers.errors import one_line
from helpers.judge import judged
from helpers.results import version_of
from helpers.session import placed
from helpers.tensors import clone
from helpers.text import count

Cell = tuple[str, str]
"""A verdict of data/since/programs.toml, and what else there is to say."""


def cell_of(row: dict[str, Any]) -> Cell:
    """Return what becomes of a program: it is run eagerly and compiled, and judged."""
    try:
        pkgutil.resolve_name(row["needs"] or "torch")
    except (ImportError, AttributeError):
        return "not there", row["needs"]
    Path("program.py").write_text(row["program"], "utf-8")
    sys.path.insert(0, os.getcwd())
    with correctness.seeded(0):
        program = importlib.import_module("program")
        whole = hasattr(program, "make")
        fn, inputs = program.make() if whole else (program.eager, ())
    return _judged(program, fn, given_calls(inputs), whole, row["train"])


def _judged(
    program: ModuleType, fn: Callable[..., Any], calls: list, whole: bool, train: bool
) -> Cell:
    """Return the cell of a program: first whether it is right, then its graphs.

    *whole*: *fn* is compiled, and called with each of *calls*.
    """
    inside = _is_compiled_inside(fn)

    def eager(*inputs: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("force_eager" if inside else "default"):
            return fn(*inputs, **kwargs)

    compiled = _compiled(fn) if whole else program.compiled
    how = {"gradients": correctness.weighted_sum if train else False, "model": fn}
    change = getattr(program, "change", None)
    if change:
        _called(compiled, clone(calls[:1]))
        change()
        calls = calls[-1:]
    found = judged(eager, compiled, calls, **how)
    differ = [one for one in found.differences if not one.look]
    for one in differ:
        if (one.field, one.eager) == ("raises", "runs"):
            return "raises", one.compiled
    if differ and change:
        torch.compiler.reset()
        if judged(eager, torch.compile(fn), calls, **how).matches is not False:
            return "stale", differ[0].says
    if differ:
        return "wrong", differ[0].says
    errors = _called(eager, clone(calls))
    if all(errors):
        return "no program", f"eager raises {one_line(errors[0])}"
    if whole and not change:  # what a call used up, such as an iterator, is there again
        fn, inputs = program.make()
        compiled, calls = _compiled(fn), given_calls(inputs)
    verdict, says = _counted(fn, compiled, calls, whole)
    unsure = "answers not compared" if found.undecided else ""
    return verdict, "; ".join(filter(None, (says, unsure)))


def _compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return *fn* compiled, or itself where its program compiles parts of it."""
    return fn if _is_compiled_inside(fn) else torch.compile(fn)


def _is_compiled_inside(fn: Callable[..., Any]) -> bool:
    return any(_torch.is_compiled(one) for _, one in placed({"": fn}) if callable(one))


def _called(fn: Callable[..., Any], calls: list) -> list[Exception | None]:
    """Return what each call raises."""
    errors: list[Exception | None] = []
    for inputs, kwargs in calls:
        try:
            fn(*inputs, **kwargs)
            errors.append(None)
        except Exception as error:
            errors.append(error)
    return errors


def _counted(fn: Any, compiled: Callable[..., Any], calls: list, whole: bool) -> Cell:
    """Return how many graphs a fresh compile has, and the numbers of its breaks."""
    torch.compiler.reset()
    _torch.counters.clear()
    graphs = []
    with _torch.trace() as events:
        for call in clone(calls):
            _called(compiled, [call])
            graphs.append(_torch.counters["stats"]["unique_graphs"])
    if stops := breaks_among(events, fn):
        found = "".join(stop.message for stop in stops)
        numbers = dict.fromkeys(re.findall(r"/gb/gb(\d+)", found))
        eagerly = [] if graphs[0] else ["all of it runs eagerly"]
        return "a break", ", ".join([*(f"GB{n}" for n in numbers), *eagerly])
    if whole and not graphs[0]:
        return "no graph", ""
    if graphs[0] != 1:
        return "works", f"{count(graphs[0], 'graph')} in all" if graphs[0] else ""
    again = graphs[-1] > 1
    return "one graph", f"compiled {graphs[-1]} times in {len(calls)} calls" * again


# ------------------------------------------------------------ a process for each row


def _work(row: dict[str, Any], answer: Connection) -> None:
    """Send the cell of a row, and say nothing else."""
    os.setsid()
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with tempfile.TemporaryDirectory(prefix="since-") as folder:
        os.chdir(folder)
        try:
            answer.send(cell_of(row))
        except Exception as error:
            answer.send(("no program", one_line(error)))
        os.chdir("/")


def run(rows: list[dict], jobs: int, seconds: float) -> Iterator[tuple[str, Cell]]:
    """Yield the name and the cell of each row, as it is done."""
    forked, waiting, running = multiprocessing.get_context("fork"), rows[:], {}
    while waiting or running:
        while waiting and len(running) < jobs:
            row, (reader, writer) = waiting.pop(0), forked.Pipe(False)
            child = forked.Process(target=_work, args=(row, writer))
            child.start()
            writer.close()
            running[reader] = row["name"], child, time.monotonic() + seconds
        ready = wait(running, timeout=0.5)
        for reader, (name, child, until) in [*running.items()]:
            if reader in ready or time.monotonic() > until:
                del running[reader]
                yield name, _end(child, reader if reader in ready else None)


def _end(child: Any, reader: Connection | None) -> Cell:
    """Return what a process sent, or how it ended; end what it leaves behind."""
    try:
        verdict, says = reader.recv() if reader else ("not done", "it takes too long")
        cell = verdict, re.sub(r" at 0x\w+", "", says)  # another one in each run
    except EOFError:
        child.join()
        cell = "dies", signal.Signals(-child.exitcode).name
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.join()
    return cell


def main() -> None:
    """Write the versions, then each cell."""
    versions = {"torch": torch.__version__, "triton": version_of("triton")}
    print(json.dumps({**versions, "python": sys.version.split()[0]}), flush=True)
    folder = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / torch.__version__
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    torch.compile(torch.sin)(torch.ones(3))  # what the first compile imports, and asks
    torch.compiler.reset()
    rows = json.loads(sys.stdin.readline())
    for found in run(rows, int(sys.argv[1]), float(sys.argv[2])):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
