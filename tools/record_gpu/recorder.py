"""Runs the cases one by one, and keeps all of them in one file.

The file is written whole after every case.  An interrupt loses the case at work and
nothing else, a second run goes on where the first stopped, and what fails is kept as
failed, with its message.
"""

from __future__ import annotations

import contextlib
import io
import re
import signal
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from course.recordings import DONE, FAILED, NOT_RUN, SCHEMA, Finding, Recording, read
from helpers import results
from helpers.errors import InputError, ResultError
from helpers.results import Machine
from helpers.text import size
from tools.record_gpu import experiments, observations
from tools.record_gpu.cases import LAST, Case, Outcome, Setting, cold, free

# In the order in which cases of the same rank are run.
EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Case]]] = {
    "machine": observations.machine,
    "chains": experiments.chains,
    "modes": experiments.modes,
    "matmul": experiments.products,
    "CUDA graphs": observations.cuda_graphs,
    "lengths": experiments.lengths,
    "tf32": experiments.precisions,
    "by hand": experiments.by_hand,
    "sources": observations.sources,
    "held": observations.held,
    "energy": observations.energy,
    "launches": observations.launches,
}
_PATIENCE = 5  # times what a case is said to take, it is broken off


class GpuLost(RuntimeError):
    """The GPU no longer answers this process: what follows would fail, too."""


def cases(setting: Setting, only: Sequence[str] = ()) -> list[Case]:
    """Return the cases of the experiments named in *only*, or all of them.

    The most telling come first; what slows down the rest of the process comes last.
    """
    if unknown := sorted({*only} - {*EXPERIMENTS}):
        known = ", ".join(EXPERIMENTS)
        raise InputError(f"no experiment {', '.join(unknown)}: there are {known}")
    chosen = [
        case
        for name, experiment in EXPERIMENTS.items()
        if not only or name in only
        for case in experiment(setting)
    ]
    return sorted(chosen, key=lambda case: case.rank)


def record(
    path: Path,
    setting: Setting,
    chosen: Sequence[Case],
    minutes: float = 20.0,
    say: Callable[[str], object] = print,
) -> Recording:
    """Run what *path* does not hold yet, keep each case there, return the whole.

    First what was never tried, then what failed before; within *minutes*.  Raises
    ResultError when the file is damaged, or from another machine or version.
    """
    findings = {finding.key: finding for finding in _earlier(path, setting)}
    todo = [
        c for c in chosen if c.key not in findings or findings[c.key].status != DONE
    ]
    todo.sort(key=lambda c: (c.rank == LAST, c.key in findings))
    end = time.monotonic() + 60 * minutes
    if todo and setting.device == "cuda":
        _start_compiler(setting)
    for number, case in enumerate(todo, 1):
        if time.monotonic() + case.seconds > end:
            say(f"{len(todo) - number + 1} cases are left: run it again to go on")
            break
        findings[case.key] = finding = _attempt(case, setting)
        _whole(findings.values(), setting).save(path)
        name = " ".join(map(str, case.key))
        say(f"[{number}/{len(todo)}] {name}: {finding.summary()}"[:200])
        _check_gpu()
    return _whole(findings.values(), setting)


def _earlier(path: Path, setting: Setting) -> tuple[Finding, ...]:
    """Return what an earlier run left in *path*, on this machine."""
    if not path.exists():
        return ()
    earlier, here = read(path), Machine.here()
    origins = [(m.gpu, m.torch, m.triton) for m in (earlier.machine, here)]
    if earlier.quick != setting.quick or origins[0] != origins[1]:
        raise ResultError(
            f"{path.name} was recorded with other versions or sizes, or on another "
            "GPU: name another file with --to, or delete it"
        )
    return earlier.findings


def _whole(findings: Iterator[Finding], setting: Setting) -> Recording:
    command = "python -m tools.record_gpu" + " --quick" * setting.quick
    return Recording(SCHEMA, setting.quick, tuple(findings), command=command)


def _start_compiler(setting: Setting) -> None:
    """Compile once: starting the compiler's processes is no part of a cold start."""
    with contextlib.suppress(Exception), cold():  # the first case will say what fails
        torch.compile(lambda x: x + 1)(setting.randn(8))


def _attempt(case: Case, setting: Setting) -> Finding:
    """Run one case; whatever happens is a finding, but for an interrupt."""
    start, outcome = time.perf_counter(), Outcome()
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
        seconds=time.perf_counter() - start,
        when=results.now(),
    )


def _hindrance(case: Case, setting: Setting) -> str:
    """Return why a case cannot run here, or ''."""
    if setting.device != "cuda":
        return "needs an NVIDIA GPU" if case.gpu else ""
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


def _anonymous(values: dict) -> dict:
    return {k: anonymous(v) if isinstance(v, str) else v for k, v in values.items()}


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds."""

    def ring(number: int, frame: types.FrameType | None) -> None:
        raise TimeoutError(f"took longer than {seconds:.0f} s, and was broken off")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _check_gpu() -> None:
    if torch.cuda.is_available():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # an illegal access stays for this process
            raise GpuLost(
                f"the GPU does not answer any more ({_first_line(error)}). What was "
                "measured is kept: run it again in a new process"
            ) from error
