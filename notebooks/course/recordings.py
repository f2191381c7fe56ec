"""What the course measured on a real GPU, and how a lesson shows it.

``python -m tools.record_gpu`` writes one JSON file for each GPU into
``data/recorded/``, with every sample.  The tests compute each speed-up, interval and
verdict there again, so that no number can be prettier than what was measured.

A lesson shows a recording beside what the reader's machine measured.  Where nothing
is recorded, or only a damaged file, a sentence says so in the same place, and the
lesson goes on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from helpers import results
from helpers.benchmark import Comparison
from helpers.errors import ResultError
from helpers.results import Machine, Measured
from helpers.text import Table, mark, pre, seconds, size

SCHEMA = 2
DONE, FAILED, NOT_RUN = "done", "failed", "not run"
FOLDER = Path(__file__).resolve().parents[2] / "data" / "recorded"
_HOW = "`make record`, on a machine with an NVIDIA GPU, makes one"


@dataclass(frozen=True)
class Finding:
    """One case of an experiment, and what came of it.

    *series* and *value* place it in a table or a sweep.  *facts* are counts and
    sizes by name, *texts* whole messages or sources.
    """

    experiment: str
    series: str
    value: int | float | str
    status: Literal["done", "failed", "not run"]
    message: str
    comparison: Comparison | None
    facts: dict[str, int | float | str]
    texts: dict[str, str]
    seconds: float
    when: str

    @property
    def key(self) -> tuple[str, str, int | float | str]:
        """What no two findings of a recording share."""
        return self.experiment, self.series, self.value

    def summary(self) -> str:
        """Return what was found, on one line, nothing marked."""
        if self.status != DONE:
            return " ".join(f"{self.status}: {self.message}".split())
        parts = [self.comparison.ratio()] if self.comparison else []
        for name, fact in self.facts.items():
            parts.append(
                f"{name} {fact:.4g}" if isinstance(fact, float) else f"{name} {fact}"
            )
        return ", ".join(parts or self.texts) or DONE

    def costs(self) -> str:
        """Return first call, both medians and peak memory; '' if nothing is timed."""
        if self.comparison is None:
            return ""
        times = (self.comparison.cold_start_s, *self.comparison.median_s)
        peaks = self.comparison.peak_bytes or ()
        return ", ".join([*map(seconds, times), *map(size, peaks)])


@dataclass(frozen=True, repr=False)
class Recording(Measured):
    """All that was measured on one GPU.  *quick* ones have toy sizes, for tests."""

    schema: int
    quick: bool
    findings: tuple[Finding, ...]

    @property
    def label(self) -> str:
        """Where and when: what stands beside each number and curve of it."""
        place = self.machine.gpu or f"{self.machine.cpu} (no GPU)"
        toy = ", toy sizes" if self.quick else ""
        return f"recorded on {place}, {self.when[:10]}{toy}"

    def __str__(self) -> str:
        m = self.machine
        versions = f"torch {m.torch}, triton {m.triton}, driver {m.driver}"
        rows = [(*f.key, f.summary(), f"{f.seconds:.1f} s") for f in self.findings]
        table = Table.of(("experiment", "series", "value", "found", "took"), rows)
        return f"{self.label}: {versions}, `{self.command}`\n{table}"


def read(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in a file.

    Raises ResultError or OSError, which say what is wrong and what to do.
    """
    recording, name = results.load(path), Path(path).name
    if not isinstance(recording, Recording) or recording.schema != SCHEMA:
        raise ResultError(f"{name} holds no recording of schema {SCHEMA}")
    return recording


# --- what a lesson shows ----------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Recorded:
    """One experiment of a recording, or one series of it; false where there is none.

    *label* says where and when it was recorded, or why nothing is here.
    """

    label: str
    findings: tuple[Finding, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.findings)

    def line(self) -> str:
        """Return all of it on one line, nothing marked."""
        cases = []
        several = len({f.series for f in self.findings}) > 1
        for f in self.findings:
            name = f"{f.series} {f.value}" if several else f"{f.value}"
            cases.append(f"{name}: {f.summary()}")
        text = f"{self.label}: {'; '.join(cases)}" if cases else self.label
        return " ".join(text.split())

    def table(self) -> Table:
        """Return a row for each case."""
        rows = [(f.series, f.value, f.summary(), f.costs()) for f in self.findings]
        headings = ("series", "value", "found", "first call, then eager and compiled")
        return Table.of(headings, rows, self.label)

    def __str__(self) -> str:
        return str(self.table()) if self else self.line()

    def __repr__(self) -> str:  # one mark: a page is the same with and without it
        return mark(self.line())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() if self else pre(self.line())


def recorded(experiment: str, series: str | None = None) -> Recorded:
    """Return an *experiment* that was recorded on a GPU, or one *series* of it.

    On a machine with a GPU its own recording is taken, else the newest in
    ``data/recorded/``, or what the variable COURSE_RECORDED names.  Where there is
    none, or a file is damaged, what comes back is false and says so.
    """
    folder = Path(os.environ.get("COURSE_RECORDED") or FOLDER)
    try:
        recordings = [read(path) for path in folder.glob("*.json")]
    except (ResultError, OSError) as error:
        return Recorded(f"{error}. Delete or restore that file: {_HOW}")
    if not recordings:
        return Recorded(f"No GPU recording is here yet: {_HOW}")
    gpu = Machine.here().gpu
    newest = max(
        recordings, key=lambda r: (gpu is not None and r.machine.gpu == gpu, r.when)
    )
    findings = tuple(
        f
        for f in newest.findings
        if f.experiment == experiment and series in (None, f.series)
    )
    if findings:
        return Recorded(newest.label, findings)
    place = newest.label.replace("recorded on", "The recording of")
    asked = f"{experiment}, {series}" if series else experiment
    return Recorded(f"{place}, has nothing of {asked}: {_HOW}")
