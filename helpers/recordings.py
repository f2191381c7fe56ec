"""A recording in a lesson: shown beside what this machine measured.

Where nothing is recorded, or only a damaged file, a sentence says so in the same
place, and the lesson goes on.

What the course measured on a real GPU: a recording, and why to believe it.

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
from typing import Any

from helpers import results, stats
from helpers.benchmark import Comparison, estimate
from helpers.errors import ResultError
from helpers.results import Machine, Result
from helpers.text import Table, mark, pre, seconds, size

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


@dataclass(frozen=True, repr=False)
class Recording(Result):
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


FOLDER = Path(__file__).resolve().parents[1] / "data" / "recorded"
HOW = "`make record`, on a machine with an NVIDIA GPU, makes one"


@dataclass(frozen=True, repr=False)
class Recorded:
    """One experiment of a recording, or of it one series."""

    label: str
    findings: tuple[Finding, ...]
    beside: str = ""  # a file that was passed over, and why

    @property
    def points(self) -> tuple[Finding, ...]:
        """The timed cases: each has a value and a comparison, as in a sweep."""
        return tuple(f for f in self.findings if f.comparison)

    def said(self, value: int | float | str, series: str | None = None) -> str:
        """Return what was found for one value, on one line."""
        for f in self.findings:
            if str(f.value) == str(value) and series in (None, f.series):
                return f.said()
        return "not recorded"

    def texts(self, value: int | float | str, series: str | None = None) -> dict:
        """Return the texts kept for one value, by name."""
        for f in self.findings:
            if str(f.value) == str(value) and series in (None, f.series):
                return dict(f.texts)
        return {}

    def line(self) -> str:
        """Return all of it on one line, nothing marked."""
        many = len({f.series for f in self.findings}) > 1
        said = [
            f"{f.series + ' ' if many else ''}{f.value}: {f.said()}"
            for f in self.findings
        ]
        line = f"{self.label}: {'; '.join(said)}{self.beside and '. '}{self.beside}"
        return " ".join(line.split())

    def table(self) -> Table:
        """Return a row for each case."""
        rows = [(f.series, f.value, f.said(), f.costs()) for f in self.findings]
        headings = ("series", "value", "found", "first call, then eager and compiled")
        return Table.of(headings, rows, self.label)

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"{self.table()}\n{self.beside}".strip()

    def __repr__(self) -> str:  # one mark: a page is the same with and without it
        return mark(self.line())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + (pre(self.beside) if self.beside else "")


@dataclass(frozen=True, repr=False)
class NoRecording(Recorded):
    """Nothing is recorded: says so wherever a recording would stand."""

    label: str
    findings: tuple[Finding, ...] = ()

    def said(self, value: Any, series: str | None = None) -> str:
        return "nothing recorded"

    def line(self) -> str:
        return self.label

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.label

    def _repr_html_(self) -> str:
        return pre(self.label)


def recorded(
    experiment: str, series: str | None = None, folder: Path | None = None
) -> Recorded:
    """Return an *experiment* that was recorded on a GPU, or of it one *series*.

    On a machine with a GPU its own recording is taken, else the newest in *folder*
    (``data/recorded/``, or what the variable COURSE_RECORDED names).  Where there is
    none, or it is damaged, what comes back is false and says so.
    """
    home = Path(folder or os.environ.get("COURSE_RECORDED") or FOLDER)
    good, bad = list[Recording](), list[str]()
    for path in sorted(home.glob("*.json")):
        try:
            good.append(read(path))
        except (ResultError, OSError) as error:
            bad.append(f"{error}. Delete or restore that file: {HOW}")
    beside = " ".join(" ".join(bad).split())
    here = Machine.here().gpu
    good.sort(key=lambda one: (here is not None and one.machine.gpu == here, one.when))
    if not good:
        return NoRecording(beside or f"No GPU recording is here yet: {HOW}.")
    found = [f for f in good[-1] if f.experiment == experiment]
    found = [f for f in found if series in (None, f.series)]
    if not found:
        label = good[-1].label.replace("recorded on", "The recording of")
        asked = f"{experiment}, {series}" if series else experiment
        return NoRecording(f"{label}, has nothing of {asked}: {HOW}. {beside}".strip())
    return Recorded(good[-1].label, tuple(found), beside)
