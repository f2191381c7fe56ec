"""A recording in a lesson: shown beside what this machine measured.

Where nothing is recorded, or only a damaged file, a sentence says so in the same
place, and the lesson goes on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.recording import Finding, Recording, read
from helpers.results import Machine, ResultError
from helpers.text import Table, mark, pre

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
