"""Which programs notice which planted bug: the matrix, and its picture."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT, run

from course.planted import BUGS, planted
from course.sweep import (
    STORIES,
    Program,
    corners,
    example,
    operators,
    sweep,
    tell,
)
from helpers.plots import COLOURS, Picture, styled
from helpers.text import mark, progress

SHORT = (
    "1003 numbers",
    "maximum of NaN",
    "slice",
    "embedding",
)
STATES = (
    "another size",
    "a global changes",
    "one tensor, given twice",
    "the other branch of cond",
    "dropout draws anew",
    "autocast in the function",
)


def short_list() -> list[Program]:
    """Return the programs of the matrix: few, since each bug runs them all."""
    own = {program.name: program for program in corners()}
    alone = operators("atan2 nn.functional.hardswish")
    return [example(), *alone, *(own[name] for name in SHORT)]


def who_notices() -> dict[str, dict[str, bool]]:
    """Return for each planted bug which programs notice it.

    A bug that one call shows is shown to the programs; a bug that needs
    several calls, to ``block`` and the stories.  The compiler goes as far
    as the bug's own layer.  "no bug" is a row, too, for all of them.
    """
    programs = short_list()
    states = [story for story in STORIES if story.name in STATES]
    found = {}
    with progress("planted bugs", len(BUGS) + 1) as bar:
        rows = sweep(programs) + tell(states)
        found["no bug"] = {row.program: bool(row.wrong) for row in rows}
        bar.update(1)
        for name in BUGS:
            with planted(name) as bug:
                if bug.one_call:
                    rows = sweep(programs, backend=bug.backend)
                else:
                    rows = sweep(programs[:1], backend=bug.backend)
                    rows += tell(states, backend=bug.backend)
            found[name] = {row.program: bool(row.wrong) for row in rows}
            bar.update(1)
    return found


@styled
def picture(found: dict[str, dict[str, bool]]) -> Picture:
    """Return the matrix: a mark where a program notices a bug."""
    from matplotlib.figure import Figure

    bugs, programs = list(found), list(found["no bug"])
    figure = Figure(figsize=(11.5, 8.2), layout="constrained")
    axes = figure.subplots()
    for row, bug in enumerate(bugs):
        for column, program in enumerate(programs):
            if program not in found[bug]:
                continue
            noticed = found[bug][program]
            axes.plot(
                column,
                row,
                "o" if noticed else ".",
                color=COLOURS[1] if noticed else "#BBBBBB",
                markersize=15 if noticed else 4,
            )
    axes.axvspan(-0.5, 0.5, color=COLOURS[0], alpha=0.12, linewidth=0)
    names = [name.removeprefix("nn.functional.") for name in programs]
    axes.set_xticks(range(len(programs)), names, rotation=42, ha="left")
    axes.set_yticks(range(len(bugs)), bugs)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=13)
    axes.set(xlim=(-0.5, len(programs) - 0.5), ylim=(len(bugs) - 0.5, -0.5))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    by = {bug: [p for p in found[bug] if found[bug][p]] for bug in bugs}
    # Which sizes are odd depends on how long this machine's vectors are.
    width = "the last elements of an odd size"
    by[width] = [mark(", ".join(by[width]))]
    words = "; ".join(
        f"{bug}: {', '.join(by[bug]) or 'nobody'}" for bug in bugs
    )
    return Picture(figure, f"Who notices which planted bug. {words}.")


_IN_CI = ("CI", "BUILD_NUMBER")


def pytest_on(file: str, bug: str | None = None) -> str:
    """Return what ``pytest -q`` says of *file*, run in a process of its own.

    With a *bug*, the compiler of that process has it.
    """
    folder = Path(__file__).resolve().parents[1]
    start = """
import contextlib, sys
sys.path.insert(0, ".")
import pytest
from course.planted import planted
bug = sys.argv.pop(1)
with planted(bug) if bug else contextlib.nullcontext():
    code = pytest.main(sys.argv[1:])
sys.exit(code)
"""
    options = [
        "-q",
        "--color=no",
        "--no-header",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:logging",
    ]
    options += ["-W", "ignore", "-c", "/dev/null", "--rootdir", "."]
    command = [sys.executable, "-c", start, bug or "", file, *options]
    # pytest's summary is another one where it believes to be in CI.
    variables = {k: v for k, v in os.environ.items() if k not in _IN_CI}
    variables["COLUMNS"] = "160"
    done = run(
        command,
        cwd=folder,
        env=variables,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
    )
    return done.stdout
