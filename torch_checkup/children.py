"""Work in a child process, which reports as it goes.

The process reads its order, as JSON, from its input, and writes what it finds to a
file, a line of JSON each: one that is ended has told what it knew.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from .helpers import text
from .helpers.children import end, family, start
from .helpers.errors import InputError

_News = dict[str, Any]


def parts(
    module: str,
    order: _News,
    names: Sequence[str],
    timeout: float,
    memory: int | None = None,
    path: Sequence[str] = (),
    advice: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, _News]]:
    """Yield (name, what it found) as the parts end, and ('', news) of the whole.

    *order* goes to *module* with the ``parts`` to do; the other arguments are those of
    `reports`.  A part that had to be ended, or that killed its process, found a
    ``problem`` and how it ``ended``, and those that are left go on in a new process.

    Raises InputError where no process comes to a first part.
    """
    left, began = list(names), False
    while left or not began:  # without parts, there is the news of the whole
        stage, began = "", True
        whole = {**order, "parts": left}
        for news in reports(
            module, whole, timeout, memory, env=env, path=path, advice=advice
        ):
            stage = news.get("stage", stage)
            if part := news.get("part"):
                left.remove(part["name"])
                yield part["name"], part
            elif problem := news.get("problem"):
                if stage not in left and len(left) == len(names):  # nothing was done
                    raise InputError(f"{order['target']}: {problem}")
                for name in [stage] if stage in left else [*left]:
                    left.remove(name)
                    yield name, {"problem": problem, "ended": news["ended"]}
            elif "stage" not in news:
                yield "", news


def reports(
    module: str,
    order: _News,
    timeout: float,
    memory: int | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    path: Sequence[str] = (),
    advice: Mapping[str, str] | None = None,
) -> Iterator[_News]:
    """Yield what a process that runs *module* reports, as it comes.

    It is ended when one of its stages takes more than *timeout* seconds, or when it and
    what it started have more than *memory* bytes, by default three quarters of what is
    free.  Then, and where it fails, the last is the ``stage``, a ``problem`` and how it
    ``ended`` (`End`).  *env* has variables for it; its report is kept in *folder*, or
    the system's for temporary files, for as long as it runs.  It imports what this
    process can, and looks in the folders of *path* first.  *advice* is for a problem
    (`explained`).

    Raises Unavailable where no process can be started.
    """
    limit = memory_limit(memory)
    with tempfile.TemporaryDirectory(dir=folder, prefix="report-") as place:
        report, said = Path(place) / "report", Path(place) / "said"
        whole = json.dumps({**order, "report": str(report)})
        child = _given(module, whole, said, env, path)
        try:
            stage, why = yield from _followed(child, report, timeout, limit)
        finally:
            end(child)
        if why is not None:
            problem = explained(stage, why.says, advice)
            yield {"stage": stage, "problem": problem, "ended": why.how}


@dataclass(frozen=True)
class End:
    """How a process came to its end, in a word for who compares, and in a sentence.

    *how* is ``time`` or ``memory`` where it had to be ended; of one that ended by
    itself the name of the signal, such as ``SIGSEGV``, or ``status 3``; and ``raised``
    where *says* is what an exception said.
    """

    how: str
    says: str


def memory_limit(memory: int | None) -> int:
    """Return the bytes that a process may have: by default most of what is free."""
    return memory or int(0.75 * psutil.virtual_memory().available)


def _given(
    module: str,
    order: str,
    said: Path,
    env: Mapping[str, str] | None,
    path: Sequence[str],
) -> subprocess.Popen:
    """Start a module, and write *order* to its input and its errors to *said*."""
    with said.open("w") as errors:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        words = "-m", module
        child = start(*words, path=path, env=env, **pipes, stderr=errors, text=True)
    with suppress(BrokenPipeError):  # it may have died at once: its status will tell
        child.stdin.write(order)
        child.stdin.close()
    return child


def _followed(
    child: subprocess.Popen, report: Path, timeout: float, limit: int
) -> Generator[_News, None, tuple[str, End | None]]:
    """Yield the news of *child* as its report grows; return its last stage, and why.

    That is why it ended, or None if all is done.
    """
    begin, place, stage = time.monotonic(), 0, "start Python"
    while True:
        status = child.poll()
        lines = report.read_text("utf-8").split("\n") if report.exists() else []
        for line in lines[place:-1]:  # after the last break, half a line may stand
            news, place = json.loads(line), place + 1
            if "stage" in news:
                begin, stage = time.monotonic(), news["stage"]
            if "done" in news:
                return stage, None
            yield news
        if status is not None:
            said = report.with_name("said").read_text(errors="replace")
            return stage, _death(status, said)
        if why := _too_much(child, begin, timeout, limit):
            return stage, why
        time.sleep(0.2)


def awaited(child: subprocess.Popen, said: Path, timeout: float, limit: int) -> End:
    """Return how a process ends that writes its errors to *said*.

    One that takes more than *timeout* seconds, or *limit* bytes of memory, is ended.
    """
    begin = time.monotonic()
    try:
        while (status := child.poll()) is None:
            if why := _too_much(child, begin, timeout, limit):
                return why
            time.sleep(0.1)
        return _death(status, said.read_text(errors="replace"))
    finally:
        end(child)


def _too_much(
    child: subprocess.Popen, begin: float, timeout: float, limit: int
) -> End | None:
    """Return why a process has to be ended, if it has."""
    if time.monotonic() - begin > timeout:
        return End(
            "time", f"not done after {timeout:g} seconds: give a longer timeout="
        )
    held = _held(child.pid)
    if held > limit and (held := _held(child.pid, "pss")) > limit:
        took = f"{text.size(held)} of memory, more than {text.size(limit)}"
        return End("memory", f"it took {took}")
    return None


def _death(status: int, said: str) -> End:
    """Return how a process ended by itself; what it *said*, for an exception."""
    if status < 0:
        name = signal.Signals(-status).name
        full = ", as of a system whose memory is full" if name == "SIGKILL" else ""
        return End(name, f"its process died of {name}{full}")
    if status == 1:
        return End("raised", said)
    last = (said.strip().splitlines() or ["nothing"])[-1]
    says = f"it ended its process, with status {status}; it said: {last}"
    return End(f"status {status}", says)


def _held(pid: int, kind: str = "rss") -> int:
    """Return the memory of a process and of all that it started, in bytes.

    Of kind ``pss``, what they share counts once, where the system tells it: that takes
    longer.
    """
    total = 0
    for one in family(pid):
        with suppress(psutil.Error):
            info = one.memory_full_info() if kind == "pss" else one.memory_info()
            total += getattr(info, kind, info.rss)
    return total


def explained(stage: str, said: str, advice: Mapping[str, str] | None = None) -> str:
    """Return in one line where a process failed, how, and what to do.

    *advice* has a sentence for each pattern; they are looked for, in their order, in
    "stage: error" and, below it, all that the process said.
    """
    errors = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Failed|Exception)\b.*)$", said, re.M)
    last = (errors or said.strip().splitlines() or ["it said nothing"])[-1]
    last = last.removeprefix("InputError: ")  # ours: it says what to do
    last = re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "…/", last)  # folders that are gone
    told = f"{stage}: {last}\n{said}"
    for pattern, does in (advice or {}).items():
        if re.search(pattern, told):
            return f"failed at: {stage}: {last}. {does}"
    return f"failed at: {stage}: {last}"


def chosen(only: Sequence[str], every: Iterable[str]) -> list[str]:
    """Return the names among *every* that are in *only*, or all where that is empty.

    Raises InputError for one that is not there.
    """
    if unknown := set(only) - set(every):
        names = ", ".join(sorted(unknown))
        raise InputError(f"there is no {names}: there are {', '.join(every)}")
    return [name for name in every if name in only or not only]
