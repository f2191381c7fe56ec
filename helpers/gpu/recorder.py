"""``python -m helpers record``: measure on a GPU, and keep all of it in one file.

The file is written whole after every case.  An interrupt loses the case at work and
nothing else, a second run goes on where the first stopped, and what fails is kept as
failed, with its message.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from helpers import results
from helpers.gpu.cases import Case, Outcome, Setting, cold, free
from helpers.gpu.experiments import timed
from helpers.gpu.observations import LAST, observed
from helpers.recordings import (
    DONE,
    FAILED,
    FOLDER,
    NOT_RUN,
    SCHEMA,
    Finding,
    Recording,
    read,
)
from helpers.results import Machine, ResultError
from helpers.text import Table, size

NAMES = (
    "machine",
    "chains",
    "modes",
    "matmul",
    "CUDA graphs",
    "lengths",
    "tf32",
    "by hand",
    "sources",
    "launches",
)
_PATIENCE = 5  # times what a case is said to take, it is broken off


class GpuLost(RuntimeError):
    """The GPU no longer answers this process: what follows would fail, too."""


def cases(setting: Setting, only: Sequence[str] = ()) -> list[Case]:
    """Return the cases of the experiments named in *only*, or all of them.

    The most telling come first; what slows down the rest of the process comes last.
    """
    unknown = set(only) - set(NAMES)
    if unknown:
        raise ValueError(
            f"no experiment {', '.join(sorted(unknown))}: there are {', '.join(NAMES)}"
        )
    found = [*observed(setting), *timed(setting)]
    found = [case for case in found if not only or case.experiment in only]
    return sorted(found, key=lambda case: (case.rank, NAMES.index(case.experiment)))


def record(
    path: Path,
    setting: Setting,
    chosen: Sequence[Case],
    minutes: float = 20.0,
    say: Callable[[str], None] = print,
) -> Recording:
    """Run what *path* does not hold yet, keep each case there, return the whole.

    First what was never tried, then what failed before; within *minutes*.  Raises
    ResultError when the file is damaged, or from another machine or version.
    """
    findings = {f.key: f for f in _before(path, setting)}
    todo = [c for c in chosen if _status(findings, c) != DONE]
    todo.sort(key=lambda c: (c.rank == LAST, c.key in findings))
    whole, start = _whole(findings, setting), time.monotonic()
    if todo:
        _first_compile(setting)
    for number, case in enumerate(todo, 1):
        left = 60 * minutes - (time.monotonic() - start)
        if case.seconds > left:
            say(f"{len(todo) - number + 1} cases are left: run it again to go on")
            break
        finding = _attempt(case, setting)
        findings[case.key] = finding
        whole = _whole(findings, setting)
        whole.save(path)
        where = " ".join(map(str, case.key))
        say(f"[{number}/{len(todo)}] {where}: {finding.said()}"[:200])
        _still_there()
    return whole


def _before(path: Path, setting: Setting) -> tuple[Finding, ...]:
    """Return what an earlier run left in *path*, on this machine."""
    if not path.exists():
        return ()
    found, here = read(path), Machine.here()
    mine = (setting.quick, here.gpu, here.torch, here.triton)
    theirs = (found.quick, *(getattr(found.machine, n) for n in _SAME))
    if mine != theirs:
        raise ResultError(
            f"{path.name} was recorded with other versions or sizes, or on another "
            "GPU: name another file with --to, or delete it"
        )
    return found.findings


_SAME = ("gpu", "torch", "triton")


def _status(findings: dict[Any, Finding], case: Case) -> str | None:
    return findings[case.key].status if case.key in findings else None


def _whole(findings: dict[Any, Finding], setting: Setting) -> Recording:
    said = " ".join(["python -m helpers record", *["--quick"] * setting.quick])
    return Recording(SCHEMA, setting.quick, tuple(findings.values()), command=said)


def _first_compile(setting: Setting) -> None:
    """Compile once: starting the compiler's processes is no part of a cold start."""
    with contextlib.suppress(Exception), cold():  # the first case will say what fails
        torch.compile(lambda x: x + 1)(setting.randn(8))


def _attempt(case: Case, setting: Setting) -> Finding:
    """Run one case; whatever happens is a finding, but for an interrupt."""
    began, outcome = time.perf_counter(), Outcome()
    status, message = NOT_RUN, _hindrance(case, setting)
    if not message:
        try:
            quiet = contextlib.redirect_stderr(io.StringIO())  # autotuning talks
            with quiet, _limit(_PATIENCE * max(case.seconds, 10)):
                outcome = case.run(setting)
            status = DONE
        except Exception as error:
            status, message = FAILED, _first_line(error)
    with contextlib.suppress(Exception):
        free()
    return Finding(
        *case.key,
        status=status,
        message=message,
        comparison=outcome.comparison,
        facts=_anonymous(outcome.facts),
        texts=_anonymous(outcome.texts),
        seconds=time.perf_counter() - began,
        when=results.now(),
    )


def _hindrance(case: Case, setting: Setting) -> str:
    """Return why a case cannot run here, or ''."""
    if case.gpu and setting.device != "cuda":
        return "needs an NVIDIA GPU"
    if setting.device == "cuda":
        free()
        room, _ = torch.cuda.mem_get_info()
        if case.bytes > room:
            return f"needs {size(case.bytes)} of GPU memory, and {size(room)} are free"
    return ""


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return anonymous(f"{type(error).__name__}: {lines[0]}"[:300])


def anonymous(text: str) -> str:
    """Return *text* with each file named without the folders it lies in."""
    return re.sub(r"(?<![\w.])(?:/[\w.@+-]+){2,}/([\w.@+-]+)", r"\1", text)


def _anonymous(pairs: tuple[tuple[str, Any], ...]) -> Any:
    texts = [anonymous(v) if isinstance(v, str) else v for _, v in pairs]
    return tuple(zip((name for name, _ in pairs), texts, strict=True))


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds, where that can be."""

    def ring(number: int, frame: types.FrameType | None) -> None:
        raise TimeoutError(f"took longer than {seconds:.0f} s, and was broken off")

    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _still_there() -> None:
    if torch.cuda.is_available():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # an illegal access stays for this process
            raise GpuLost(
                f"the GPU does not answer any more ({_first_line(error)}). What was "
                "measured is kept: run it again in a new process"
            ) from error


# --- the command ------------------------------------------------------------------


def main(chosen: argparse.Namespace) -> int:
    """Record, print the table, and return the exit status."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    setting = Setting("cuda" if gpu else "cpu", chosen.quick)
    try:
        found = cases(setting, chosen.only)
        if chosen.list:
            print(listed(found))
            return 0
        path = Path(chosen.to) if chosen.to else _place(gpu, chosen.quick)
        # A time limit from outside ends as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        whole = record(path, setting, found, chosen.budget)
    except KeyboardInterrupt:
        print("interrupted: every finished case is kept, run it again to go on")
        return 130
    except (ValueError, OSError, GpuLost) as error:
        print(f"record: {error}", file=sys.stderr)
        return 1
    print(whole)
    failed = sum(finding.status == FAILED for finding in whole)
    print(f"{len(whole.findings)} cases in {path.name}, {failed} failed")
    return 0


def _place(gpu: str | None, quick: bool) -> Path:
    """Return the file of this GPU; ValueError where only a file of one's own goes."""
    if gpu is None:
        raise ValueError(
            "there is no NVIDIA GPU here. `--quick --to FILE` runs all that needs "
            "none, in toy sizes"
        )
    if quick:
        raise ValueError("--quick is no recording for readers: name a file with --to")
    return FOLDER / f"{re.sub('[^a-z0-9]+', '-', gpu.lower()).strip('-')}.json"


def listed(found: Sequence[Case]) -> Table:
    """Return the experiments, with how many cases and about how long."""
    rows = []
    for name in NAMES:
        mine = [case for case in found if case.experiment == name]
        if mine:
            took = sum(case.seconds for case in mine)
            needs = "all" if all(c.gpu for c in mine) else str(sum(c.gpu for c in mine))
            rows.append((name, len(mine), f"{took / 60:.1f}", needs))
    whole = sum(case.seconds for case in found) / 60
    title = f"about {whole:.0f} minutes on an H200"
    return Table.of(("experiment", "cases", "minutes", "need a GPU"), rows, title)
