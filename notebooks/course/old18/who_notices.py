"""Which programs notice which planted bug: the matrix, and its picture.

Some bugs need a **story**: several calls of a compiled function, between
which a global, a size, a branch or a random number changes.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F

from course.old18.sweep import Program, corners, example, numbers, operators, sweep
from course.drawing import Look, grid
from course.planted import BUGS, planted
from helpers.plots import COLOURS, Picture
from helpers.tensors import clone
from helpers.text import mark, progress

Compile = Callable[..., Callable[..., Any]]  # torch.compile, one backend

# Stories.  Each returns whether all is right.

GAIN = 2.0


def global_changes(compiled: Compile) -> bool:
    global GAIN

    def gained(x: torch.Tensor) -> torch.Tensor:
        return x * GAIN

    run, x = compiled(gained), numbers(9)
    try:
        first = torch.equal(run(x), x * 2)
        GAIN = 3.0
        return first and torch.equal(run(x), x * 3)
    finally:
        GAIN = 2.0


def given_twice(compiled: Compile) -> bool:
    def swapped(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    x, y = numbers(9), numbers(9, 1).view(9)
    return agree(swapped, compiled(swapped), (x, y), (x, x), (x, y))


def other_branch(compiled: Compile) -> bool:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    x = numbers(9).abs()
    return agree(chosen, compiled(chosen), (x,), (-x,))


def draws_anew(compiled: Compile) -> bool:
    run, x = compiled(F.dropout), torch.ones(999, requires_grad=True)
    first, second = run(x), run(x)
    [slope] = torch.autograd.grad(first.sum(), x)
    kept = float((first != 0).float().mean())
    repeated = torch.equal(first, second)
    return not repeated and torch.equal(slope, first) and 0.4 < kept < 0.6


def casts(compiled: Compile) -> bool:
    def cast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w

    given = numbers(9, 5), numbers(5, 7)
    return compiled(cast)(*given).dtype == torch.bfloat16


def other_size(compiled: Compile) -> bool:
    def centred(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(0)).flip(0) + x.softmax(0)

    run = compiled(centred, dynamic=True)
    return agree(centred, run, (numbers(7, 3),), (numbers(13, 3),))


def agree(function: Any, compiled: Any, *calls: tuple[Any, ...]) -> bool:
    """Return whether all calls, one after another, give what eager gives.

    Each gets copies, in which what was one tensor is still one tensor.
    """
    return all(
        torch.allclose(compiled(*clone(given)), function(*clone(given)))
        for given in calls
    )


STORIES = {
    "another size": other_size,
    "a global changes": global_changes,
    "one tensor, given twice": given_twice,
    "the other branch of cond": other_branch,
    "dropout draws anew": draws_anew,
    "autocast in the function": casts,
}


def noticed_by_stories(backend: str = "inductor") -> dict[str, bool]:
    """Return for each story whether it goes wrong, compiled by *backend*."""
    noticed = {}
    for name, is_right in STORIES.items():
        torch.compiler.reset()
        torch.manual_seed(0)

        def compiled(function: Any, **options: Any) -> Any:
            how = {"fullgraph": True, "backend": backend, **options}
            return torch.compile(function, **how)

        noticed[name] = not is_right(compiled)
    return noticed


NOTICED = Look(COLOURS[1], mark="o")
MISSED = Look("#BBBBBB", mark=".", points=4)


def short_list() -> list[Program]:
    """Return the programs of the matrix: few, since each bug runs them all."""
    corner = {program.name: program for program in corners()}
    chosen = ("1003 numbers", "maximum of NaN", "slice", "embedding")
    alone = operators("atan2 nn.functional.hardswish")
    return [example(), *alone, *(corner[name] for name in chosen)]


def noticed_by(
    programs: Sequence[Program], backend: str = "inductor"
) -> dict[str, bool]:
    """Return for each program whether it goes wrong, compiled by *backend*."""
    rows = sweep(programs, backend=backend)
    return {row.program: bool(row.wrong) for row in rows}


def who_notices() -> dict[str, dict[str, bool]]:
    """Return for each planted bug which programs notice it.

    A bug that one call shows is shown to the programs; a bug that needs
    several calls, to ``block`` and the stories.  The compiler goes as far
    as the bug's own layer.  "no bug" is a row, too, for all of them.
    """
    programs = short_list()
    found = {"no bug": noticed_by(programs) | noticed_by_stories()}
    with progress("planted bugs", len(BUGS)) as bar:
        for name in BUGS:
            with planted(name) as bug:
                if bug.one_call:
                    found[name] = noticed_by(programs, bug.backend)
                else:
                    found[name] = noticed_by(programs[:1], bug.backend)
                    found[name] |= noticed_by_stories(bug.backend)
            bar.update(1)
    return found


def picture(found: dict[str, dict[str, bool]]) -> Picture:
    """Return the matrix: a mark where a program notices a bug."""
    by = {bug: [p for p in found[bug] if found[bug][p]] for bug in found}
    # Which sizes are odd depends on how long this machine's vectors are.
    width = "the last elements of an odd size"
    by[width] = [mark(", ".join(by[width]))]
    words = "; ".join(f"{bug}: {', '.join(by[bug]) or 'nobody'}" for bug in found)
    drawn = grid(
        {
            bug: {
                name.removeprefix("nn.functional."): ("not noticed", "noticed")[yes]
                for name, yes in row.items()
            }
            for bug, row in found.items()
        },
        {"noticed": NOTICED, "not noticed": MISSED},
        legend="outside lower left",
        title="which program notices which planted bug",
        alt=f"Who notices which planted bug. {words}.",
        size=(11.5, 8.6),
    )
    [axes] = drawn.figure.axes
    axes.axvspan(-0.5, 0.5, color=COLOURS[0], alpha=0.12, linewidth=0)
    axes.tick_params(labelsize=13)
    for label in axes.get_xticklabels():
        label.set(rotation=42, ha="left")
    return drawn


def pytest_on(file: str) -> str:
    """Return what ``pytest -q`` says of *file*, run in this process.

    So it tests the compiler of this process, with what is planted in it.
    """
    import pytest

    options = "-q --tb=no --no-header --color=no --capture=no -W ignore"
    options += " -o console_output_style=classic -p no:cacheprovider"
    # CI, a narrow terminal and options of the reader's change its summary.
    # The settings of this course are not those of the file.
    changes = ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS")
    here = {k: v for k, v in os.environ.items() if k not in changes}
    with (
        mock.patch.dict(os.environ, {**here, "COLUMNS": "130"}, clear=True),
        contextlib.redirect_stdout(io.StringIO()) as said,
    ):
        pytest.main([file, *options.split(), "-c", os.devnull, "--rootdir", "."])
    return said.getvalue()
