"""Where a wrong answer comes from: the stage, the pass, the line, and a repro that ran.

The search (`search`) runs in a sandbox and reports as it goes: one that is ended has
reported what it knew.  This module needs no torch, because a report is read without it.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from . import sandbox
from .helpers import results, text
from .helpers.differences import Difference
from .helpers.results import Machine, Result

LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
"""The backends, each of which has all that the one before it has."""
_SOUGHT = ("call", "place", "field", "eager", "compiled")
_STAGES = {
    "eager": "Dynamo (backend eager)",
    "aot_eager": "AOTAutograd (backend aot_eager)",
    "aot_eager_decomp_partition": "the decompositions or the partitioner",
    "inductor": "inductor",
}


@dataclass(frozen=True, repr=False)
class Where(Result):
    """Where one difference comes from, as far as it was found.

    *stage* is the first backend of `LADDER` that is wrong; *step* the pass, lowering or
    setting of it that torch's bisector names; *kernel* the one that Inductor made.
    *file*, *line*, *code* and *module* are the user's, of the last operation of the
    smallest *piece* that is wrong: so many operations of the graph *graph* (from 1),
    which has *operations*.  *repro* is a program, *test* the same as a test of pytest,
    *still_fails* whether it failed when it was run, and *files* the names of what it
    loads; *source* is the user's file, where it imports that.  *often* is how many of
    how many runs were wrong.  *notes* say what was not found out, and why.
    """

    call: int
    place: str
    field: str
    eager: str
    compiled: str
    stage: str = ""
    step: str = ""
    kernel: str = ""
    module: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    graph: int = 0
    operations: int = 0
    piece: int = 0
    often: tuple[int, int] = (0, 0)
    repro: str = ""
    test: str = ""
    still_fails: bool | None = None
    lines: int = 0
    files: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What differs, in words."""
        eager, compiled = Difference(*(getattr(self, n) for n in _SOUGHT)).sides
        field = "" if self.field in ("raises", "exception") else f"{self.field} "
        return f"{self.place}: {field}{compiled}, eager {eager}"

    @property
    def at(self) -> str:
        """The user's module and line."""
        line = f"{self.file}:{self.line}" if self.file else ""
        return ", ".join(filter(None, (self.module, line)))

    def __str__(self) -> str:
        parts = [self.what]
        if self.stage:
            first = f"first wrong in {_STAGES[self.stage]}"
            at = f"at {self.at}" if self.at else ""
            parts.append(", ".join(filter(None, (first, self.step, at))))
        if self.piece > 1 and self.still_fails is not None:
            parts.append(f"{self.piece} operations together")
        if self.kernel:
            parts.append(f"kernel {self.kernel}")
        if 0 < self.often[0] < self.often[1]:
            parts.append(f"wrong in {self.often[0]} of {self.often[1]} runs")
        if self.still_fails is not None:
            does = "still fails" if self.still_fails else "does not fail"
            lines = text.count(self.lines, "line")
            parts.append(f"alone, a program of {lines} {does} (--repro keeps it)")
        return "; ".join([*parts, *self.notes])


def searched(
    found: Difference,
    order: dict[str, Any],
    timeout: float,
    memory: int | None,
    keep: Path,
) -> Where:
    """Return where a difference of a model comes from, as far as it was found.

    The search takes at most *timeout* seconds, and writes its files to *keep*.
    """
    known: dict[str, Any] = {n: getattr(found, n) for n in _SOUGHT}
    order = {**order, "memory": memory, "difference": dataclasses.asdict(found)}
    if found.ended == "memory":  # a program of the search takes as much as well
        memory = 2 * sandbox.memory_limit(memory)
    # Torch's bisector empties folders: it gets one that nobody else has.
    with tempfile.TemporaryDirectory(prefix="bisect-") as cache:
        whole = {**order, "seconds": timeout, "keep": str(keep), "cache": cache}
        for one in sandbox.reports(".search:look", whole, timeout, memory):
            known |= one.get("where", {})
            if problem := one.get("problem"):  # the search was ended, or died
                why = problem.removeprefix(f"failed at: {one['stage']}: ")
                said = f"not narrowed further: {why}"
                said += f", {known['doing']}" if "doing" in known else ""
                known["notes"] = [*known.get("notes", ()), said]
                if one["ended"] == found.ended:  # as the compiled model did
                    known["stage"] = known.get("stage") or known.get("trying", "")
    return msgspec.convert(known, Where)


def written(found: Where, kept: Path, folder: str | os.PathLike[str] | None) -> Where:
    """Write the program, the same as a test, and a draft of an issue to *folder*.

    *kept* is the folder of the search, with the inputs that a program loads.  Return
    *found*, with a note if it lacks these.
    """
    if not folder:
        lacks = f"it loads {', '.join(found.files)}, which --repro FOLDER keeps"
        return replace(found, notes=(*found.notes, lacks)) if found.files else found
    texts = {"repro.py": found.repro, "test_repro.py": found.test}
    for name, content in {**texts, "issue.md": issue(found)}.items():
        if content:
            results.write_atomically(Path(folder) / name, content)
    for name in found.files:
        results.write_atomically(Path(folder) / name, (kept / name).read_bytes())
    return found


def issue(found: Where) -> str:
    """Return a draft of an issue for torch's maintainers, in Markdown."""
    from jinja2 import Environment

    does = {True: "fails", False: "does not fail by itself", None: "was not run"}
    where = {
        "first wrong backend": found.stage,
        "step": found.step,
        "kernel": found.kernel,
        "operations": found.piece,
        "wrong in": "{} of {} runs".format(*found.often) if any(found.often) else "",
    }
    how = Environment(trim_blocks=True, keep_trailing_newline=True)
    page = (files(__package__) / "issue.jinja").read_text("utf-8")
    return how.from_string(page).render(
        it=found,
        what=text.plain(found.what),
        where=where.items(),
        does=does[found.still_fails],
        machine=dataclasses.asdict(Machine.here()),
    )
