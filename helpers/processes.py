"""Repeat a comparison in fresh processes: what one process cannot know.

Where memory lands differs from process to process, and with it the speed-up, by
more than the interval of any single process.  The children get source text
and answer in JSON, so nothing is pickled.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from helpers import stats
from helpers.agree import CompareError
from helpers.comparison import Comparison
from helpers.progress import Progress

_HOW = (
    "processes=N takes one self-contained function, with its imports inside, that "
    "returns (eager, compiled, inputs): compare(make, processes=5)"
)
MARK = "comparison:"


def in_processes(
    make: Callable,
    compiled: Any,
    processes: int,
    limits: dict[str, Any],
    names: tuple[str, str],
) -> Comparison:
    """Return the median process, with the spread between them as its interval.

    The speed-up is the median of the processes' speed-ups; the interval is exact:
    an order-statistic interval from six processes on, below that lowest to
    highest, whose confidence is stated (93.75 % for five).  *limits* are options of
    ``compare``.  Ctrl-C leaves the processes that are done, if there are two.
    """
    if compiled is not None or not callable(make):
        raise CompareError(_HOW)
    order, runs = {**_source(make), "limits": limits}, []
    with Progress("fresh processes", processes) as progress:
        try:
            while len(runs) < processes:
                runs.append(_child(order))
                progress.at(len(runs))
        except KeyboardInterrupt:
            if len(runs) < 2:
                raise
    return combine(tuple(runs), names)


def combine(runs: tuple[Comparison, ...], names: tuple[str, str]) -> Comparison:
    """Return one comparison for several of the same, one per process."""
    ratios = [run.speedup for run in runs]
    interval = stats.sign_interval(ratios) or stats.range_interval(ratios)
    middle = sorted(runs, key=lambda run: run.speedup)[len(runs) // 2]
    notes = dict.fromkeys(note for run in runs for note in run.notes)
    return dataclasses.replace(
        middle,
        names=names,
        speedup=median(ratios),
        interval=(interval.low, interval.high),
        confidence=interval.confidence,
        verdict=stats.verdict(interval),
        median_s=tuple(median(run.median_s[i] for run in runs) for i in (0, 1)),
        cold_start_s=median(run.cold_start_s for run in runs),
        matches=False if any(run.matches is False for run in runs) else middle.matches,
        max_error=max(run.max_error for run in runs),
        rounds=tuple(r for run in runs for r in run.rounds),
        notes=tuple(notes),
        scope=f"{len(runs)} fresh processes",
    )


def _source(make: Callable) -> dict[str, str]:
    """Return the name and the source text of *make*, for a child."""
    try:
        source = textwrap.dedent(inspect.getsource(make))
    except (OSError, TypeError) as error:
        raise CompareError(
            f"the source of {make!r} is not to be had. {_HOW}"
        ) from error
    if not source.lstrip().startswith(("def ", "@")):
        raise CompareError(_HOW)
    return {"name": make.__name__, "source": source}


def _child(order: dict[str, Any]) -> Comparison:
    """Run one comparison in a fresh interpreter, in this folder, and return it."""
    course, more = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")
    path = os.pathsep.join([course, more] if more else [course])
    done = subprocess.run(
        [sys.executable, "-m", "helpers.child"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "COURSE_QUIET": "1", "PYTHONPATH": path},
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            return Comparison.from_json(json.loads(line[len(MARK) :]))
    last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    raise CompareError(f"a fresh process failed: {last}\n{_HOW}")
