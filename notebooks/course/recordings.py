"""What was measured on a real GPU, and how a lesson shows it.

``python -m tools.record_gpu`` writes the result of each case, with every sample, to
``data/recorded/GPU/experiment/series/value.json``.  The tests compute each speed-up,
interval and verdict there again, so that no number can be prettier than what was
measured.

A lesson shows a recording beside what the reader's machine measured.  Where nothing
is recorded, a page shows nothing; where a file is damaged, a sentence says so in the
same place.  The lesson goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from helpers import results
from helpers.benchmark import Comparison
from helpers.errors import ResultError
from helpers.results import Machine, Observed
from helpers.text import Table, mark, pre, seconds, size

FOLDER = Path(__file__).resolve().parents[2] / "data" / "recorded"
_HOW = "`make record`, on a machine with an NVIDIA GPU, makes one"


class Case(NamedTuple):
    """One file: where it stands, what was measured, and on which GPU and when."""

    series: str
    value: str
    found: str
    costs: str
    gpu: str
    when: str


@dataclass(frozen=True, repr=False)
class Recorded:
    """One experiment that was recorded, or one series of it; false where there is none.

    *label* says where and when it was recorded, or why nothing is here.  A *missing*
    one says that in words only to who prints it: a page shows nothing.
    """

    label: str
    cases: tuple[Case, ...] = ()
    missing: bool = False

    def __bool__(self) -> bool:
        return bool(self.cases)

    def line(self) -> str:
        """Return all of it on one line, nothing marked."""
        several = len({case.series for case in self.cases}) > 1
        found = [
            f"{f'{case.series} ' if several else ''}{case.value}: {case.found}"
            for case in self.cases
        ]
        return f"{self.label}: {'; '.join(found)}" if found else self.label

    def table(self) -> Table:
        """Return a row for each case."""
        rows = [(c.series, c.value, c.found, c.costs) for c in self.cases]
        headings = ("series", "value", "found", "first call, then eager and compiled")
        return Table.of(headings, rows, self.label)

    def __str__(self) -> str:
        return str(self.table()) if self else self.line()

    def __repr__(self) -> str:  # one mark: a page is the same with and without it
        return mark("" if self.missing else self.line())

    def _repr_html_(self) -> str:
        if self.missing:
            return ""
        return self.table()._repr_html_() if self else pre(self.line())


def recorded(experiment: str, series: str | None = None) -> Recorded:
    """Return an *experiment* that was recorded on a GPU, or one *series* of it.

    On a machine with a GPU its own recording is taken, else the newest in
    ``data/recorded/``.  Where there is none, or a file is damaged, what comes back is
    false and says so.
    """
    paths = sorted(FOLDER.glob(f"*/{experiment}/{series or '*'}/*.json"))
    if not paths:
        return Recorded(f"No GPU recording is here yet: {_HOW}", missing=True)
    try:
        cases = {path: read(path) for path in paths}
    except (ResultError, OSError) as error:
        return Recorded(f"{error}. Delete or restore that file: {_HOW}")
    here = Machine.here().gpu
    newest = max(
        cases, key=lambda p: (here is not None and cases[p].gpu == here, cases[p].when)
    )
    place = newest.parents[2]  # the folder of one GPU
    label = f"recorded on {cases[newest].gpu}, {cases[newest].when[:10]}"
    chosen = [case for path, case in cases.items() if path.parents[2] == place]
    return Recorded(label, tuple(chosen))


def read(path: Path) -> Case:
    """Return the case in a file.

    Raises ResultError or OSError, which say what is wrong and what to do.
    """
    result: Comparison | Observed = results.load(path)
    costs: list[str] = []
    if isinstance(result, Observed):
        found = result.what.partition("\n")[0]
    else:
        found = result.ratio() + ("" if result.matches else ", and the answers differ")
        costs += map(seconds, (result.cold_start_s, *result.median_s))
        costs += map(size, result.peak_bytes or ())
    where = result.machine.gpu or "", result.when
    return Case(path.parent.name, path.stem, found, ", ".join(costs), *where)
