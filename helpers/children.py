"""Parts of one work, done one after the other in a process of their own.

A part that takes too long or too much memory is ended with its process, and the parts
that are left go on in a new one; so does what kills its process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from helpers import starts, text
from helpers.errors import InputError

_ENDED = "it ended its process, with status"
_News = dict[str, Any]


def parts(
    module: str,
    order: dict[str, Any],
    names: Sequence[str],
    timeout: float,
    memory: int | None = None,
) -> Iterator[tuple[str, _News]]:
    """Yield (name, what it found) as the parts end, and ('', news) of the whole.

    *module* reads *order*, with the ``parts`` to do and the file for its ``report``,
    from its input.  What had to be ended, after *timeout* seconds or with more than
    *memory* bytes (by default three quarters of what is free), found a ``problem``.

    Raises InputError where the process never comes to its first part.
    """
    limit = memory or int(0.75 * psutil.virtual_memory().available)
    left = list(names)
    while left:
        with tempfile.TemporaryDirectory(prefix="checkup-") as folder:
            report, said = Path(folder) / "report", Path(folder) / "said"
            with said.open("w") as errors:
                child = starts.process(
                    module,
                    json.dumps({**order, "parts": left, "report": str(report)}),
                    errors,
                    {"COURSE_QUIET": "1"},
                )
                stage, why = "start Python", ""
                try:
                    for kind, news in _followed(child, report, timeout, limit):
                        if kind == "stage":
                            stage = news
                        elif kind == "end":
                            why = news
                        elif kind == "part":
                            left.remove(news["name"])
                            yield news.pop("name"), news
                        else:
                            yield "", news
                finally:
                    starts.end(child)
            last_words = said.read_text(errors="replace")
        if why is None:
            return
        if why.startswith(_ENDED) and last_words.strip():
            why += f"; it said: {last_words.strip().splitlines()[-1]}"
        if stage not in left:  # it never came to the first
            why = f"failed at: {stage}: {why}" if why else ""
            why = why or starts.explained(stage, last_words)
            raise InputError(f"{order['target']}: {why}")
        left.remove(stage)
        yield stage, {"problem": why or starts.explained(stage, last_words)}


def _followed(
    child: subprocess.Popen, report: Path, timeout: float, limit: int
) -> Iterator[tuple[str, Any]]:
    """Yield the news of *child* as its report grows, by their kind; at last its end.

    ``end`` comes with why the process had to be ended, '' if it died by itself and None
    if it did all that was ordered.
    """
    begin, place = time.monotonic(), 0
    while True:
        running = child.poll() is None
        lines = report.read_text().splitlines() if report.exists() else []
        for line in lines[place:]:
            with suppress(ValueError):  # half a line: the process is writing it
                news = json.loads(line)
                place += 1
                kind = next((k for k in ("stage", "part", "done") if k in news), "")
                if kind == "stage":
                    begin = time.monotonic()
                yield ("end", None) if kind == "done" else (kind, news.get(kind, news))
                if kind == "done":
                    return
        late, held = time.monotonic() - begin > timeout, _held(child.pid)
        if not running:
            yield "end", _death(child.returncode)
            return
        if late or held > limit:
            took = f"{text.size(held)} of memory, more than {text.size(limit)}"
            slow = f"it was not done after {timeout:g} seconds: timeout= is longer"
            yield "end", slow if late else f"it took {took}"
            return
        time.sleep(0.2)


def _death(status: int) -> str:
    """Return how a process ended by itself; '' for an exception, which it has said."""
    if status >= 0:
        return "" if status == 1 else f"{_ENDED} {status}"
    name = signal.Signals(-status).name
    full = ", as of a system whose memory is full" if name == "SIGKILL" else ""
    return f"its process died of {name}{full}"


def _held(pid: int) -> int:
    """Return the memory of a process and of all that it started, in bytes."""
    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                total += one.memory_info().rss
    return total
