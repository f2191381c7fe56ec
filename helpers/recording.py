"""What the course measured on a real GPU: a recording, and why to believe it.

A recording is one JSON file in ``data/recorded/``, made by ``python -m helpers
record``.  It is checked when it is read: every speed-up and interval is computed again
from its samples.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

from helpers import results, stats
from helpers.comparison import Comparison, estimate
from helpers.results import Machine, ResultError, stored
from helpers.text import Table, pre, seconds, size

SCHEMA = 1
DONE, FAILED, NOT_RUN = STATES = ("done", "failed", "not run")
_ROUNDS = 6  # compare() never times fewer


@dataclass(frozen=True)
class Finding:
    """One case of an experiment: what it is a case of, and what came out.

    *series* and *value* place it in a table or a sweep.  *facts* are counts and
    sizes with their names, *texts* whole messages or sources.
    """

    experiment: str
    series: str
    value: int | float | str
    status: str
    message: str
    comparison: Comparison | None
    facts: tuple[tuple[str, int | float | str], ...]
    texts: tuple[tuple[str, str], ...]
    seconds: float
    when: str

    @property
    def key(self) -> tuple[str, str, int | float | str]:
        """What no two findings of a recording share."""
        return self.experiment, self.series, self.value

    def said(self) -> str:
        """Return what was found, on one line, nothing marked."""
        if self.status != DONE:
            return " ".join(f"{self.status}: {self.message}".split())
        parts = [self.comparison.ratio()] if self.comparison else []
        parts += [f"{name} {_short(value)}" for name, value in self.facts]
        return ", ".join(parts) or ", ".join(name for name, _ in self.texts) or DONE

    def costs(self) -> str:
        """Return first call, both medians and peak memory, or '' if nothing is timed.

        Not marked, as it stands in the tables of recordings only.
        """
        if self.comparison is None:
            return ""
        one = self.comparison
        peak = map(size, one.peak_bytes or ())
        return ", ".join((*map(seconds, (one.cold_start_s, *one.median_s)), *peak))


def _short(value: int | float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


@stored
@dataclass(frozen=True)
class Recording:
    """All that was measured on one GPU.  *quick* ones have toy sizes, for tests."""

    schema: int
    quick: bool
    findings: tuple[Finding, ...]
    machine: Machine = field(default_factory=Machine.here)
    command: str = field(default_factory=results.command)
    when: str = field(default_factory=results.now)

    @property
    def label(self) -> str:
        """Where and when: what stands beside each number and curve of it."""
        place = self.machine.gpu or f"{self.machine.cpu} (no GPU)"
        toy = ", toy sizes" if self.quick else ""
        return f"recorded on {place}, {self.when[:10]}{toy}"

    def table(self) -> Table:
        """Return a row for each finding."""
        rows = [(*map(str, f.key), f.said(), f"{f.seconds:.1f} s") for f in self]
        return Table.of(("experiment", "series", "value", "found", "took"), rows)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        m = self.machine
        versions = f"torch {m.torch}, triton {m.triton}, driver {m.driver}"
        return f"{self.label}: {versions}, `{self.command}`\n{self.table()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return pre(self.label) + self.table()._repr_html_()

    def checked(self) -> Recording:
        """Return self, or raise ResultError with the first thing that is wrong."""
        for wrong in _faults(self):
            raise ResultError(f"this recording is not to be believed: {wrong}")
        return self


def _faults(recording: Recording) -> Iterator[str]:
    """Yield what is wrong with a recording that can be read."""
    if recording.schema != SCHEMA:
        yield f"it has schema {recording.schema}, and this course reads {SCHEMA}"
    if not re.match(r"\d+\.\d+", recording.machine.torch or ""):
        yield f"torch {recording.machine.torch!r} is no version"
    if recording.machine.gpu is None and not recording.quick:
        yield "no GPU is named, and its sizes are those of one"
    if not _is_time(recording.when):
        yield f"{recording.when!r} is no time"
    keys = [finding.key for finding in recording]
    if len(set(keys)) < len(keys):
        yield "a case occurs twice"
    for finding in recording:
        for wrong in (*_finding_faults(finding), *_origin(finding, recording.machine)):
            yield f"{' '.join(map(str, finding.key))}: {wrong}"


def _finding_faults(finding: Finding) -> Iterator[str]:
    if finding.status not in STATES:
        yield f"status {finding.status!r} is none of {', '.join(STATES)}"
    if finding.status != DONE and not finding.message:
        yield f"{finding.status}, and not why"
    kept = finding.comparison or finding.facts or finding.texts
    if (finding.status == DONE) != bool(kept):
        yield f"{finding.status}, and {'something' if kept else 'nothing'} was found"
    if not _is_time(finding.when):
        yield f"{finding.when!r} is no time"
    numbers = [value for _, value in finding.facts if not isinstance(value, str)]
    if not all(math.isfinite(n) and n >= 0 for n in (finding.seconds, *numbers)):
        yield "a number is negative or not finite"
    if finding.comparison:
        yield from _timing_faults(finding.comparison)


def _timing_faults(one: Comparison) -> Iterator[str]:
    """Yield what is wrong with a comparison: it must follow from its samples."""
    times = [s for r in one.rounds for s in (r.a_s, r.b_s)]
    if len(one.rounds) < _ROUNDS:
        yield f"{len(one.rounds)} rounds of samples, and at least {_ROUNDS} are timed"
    elif not all(math.isfinite(s) and s > 0 for s in (*times, one.cold_start_s)):
        yield "a time is not a finite number of seconds above 0"
    else:
        used, speedup, interval = estimate(one.rounds)
        medians = [median([getattr(r, side) for r in used]) for side in _SIDES]
        ends = (interval.low, interval.high) if interval else ()
        sure = interval.confidence if interval else 0.0
        ours = [speedup, sure, *medians, *ends]
        theirs = [one.speedup, one.confidence, *one.median_s, *(one.interval or ())]
        close = len(ours) == len(theirs) and all(map(_close, ours, theirs))
        if not close or stats.verdict(interval) != one.verdict:
            yield "speed-up, interval or verdict do not follow from the samples"
    if not all(math.isfinite(n) and n >= 0 for n in one.peak_bytes or ()):
        yield "a size is negative or not finite"


_SIDES = ("a_s", "b_s")


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9)


def _origin(finding: Finding, machine: Machine) -> Iterator[str]:
    """Yield whether a comparison was made elsewhere than the recording says."""
    if one := finding.comparison:
        theirs = one.machine
        if (theirs.gpu, theirs.torch) != (machine.gpu, machine.torch):
            yield "measured on another machine, or with another torch"
        elif one.device != ("cuda" if machine.gpu else "cpu"):
            yield f"measured on the {one.device}"


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def read(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in a file, checked.

    Raises ResultError or OSError, which say what is wrong and what to do.
    """
    found, name = results.load(path), Path(path).name
    if not isinstance(found, Recording):
        raise ResultError(f"{name} does not hold a recording: name another file")
    try:
        return found.checked()
    except ResultError as error:
        raise ResultError(f"{name}: {error}") from error
