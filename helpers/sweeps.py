"""sweep(): compare over a size, a chain length, a batch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers import results, text
from helpers.benchmark import Comparison, compare_made
from helpers.errors import ResultError
from helpers.results import Machine, Result
from helpers.text import mark


@dataclass(frozen=True)
class Point:
    """One value of the parameter and what ``compare`` found there."""

    value: int | float | str
    comparison: Comparison


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """A comparison per value of one parameter; *complete* unless interrupted."""

    parameter: str
    unit: str
    points: tuple[Point, ...]
    complete: bool
    machine: Machine = field(default_factory=Machine.here)
    command: str = field(default_factory=results.command)
    when: str = field(default_factory=results.now)

    def table(self) -> text.Table:
        """Return one row per point, measured values marked."""
        head = f"{self.parameter} ({self.unit})" if self.unit else self.parameter
        rows = []
        for point in self.points:
            one = point.comparison
            cells = (*map(text.seconds, one.median_s), one.ratio())
            rows.append((point.value, *map(mark, cells)))
        names = self.points[0].comparison.names if self.points else ("a", "b")
        title = "" if self.complete else "interrupted: these points are finished"
        return text.Table.of([head, *names, "speed-up"], rows, title)

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def sweep(
    make: Callable[[Any], tuple],
    values: Iterable[int | float | str],
    *,
    parameter: str,
    unit: str = "",
    budget: float = 1.0,
    path: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Sweep:
    """Return ``compare`` over the *values* of one parameter.

    *make(value)* returns ``(eager, compiled, inputs)``, where inputs is one tensor or a
    tuple, or ``(eager, compiled, inputs, kwargs)``.  *parameter* and *unit* name the
    values.  *budget* is seconds of timing per point, half of what one comparison gets,
    as there are several, and *options* go to ``compare``.

    Ctrl-C ends it early and keeps every finished point.  With *path*, each point is
    saved as soon as it is measured, and a sweep that was interrupted goes on where it
    stopped, on the same machine and versions.  One function compiled for more than
    eight sizes needs ``dynamic=True``, or torch stops compiling it.

    Raises ValueError or TypeError for *values* that make no sweep, ResultError when
    *path* holds something else, and what ``compare`` raises, with the points before it
    in its attribute ``sweep``.
    """
    values = list(values)
    if not values:
        raise ValueError("a sweep needs at least one value")
    if len(set(values)) != len(values):
        raise ValueError(f"a value occurs twice in {values}")
    if not all(isinstance(value, (int, float, str)) for value in values):
        raise TypeError("values are plain numbers or words: use .tolist() on an array")
    done = _read(path, parameter, unit) if path is not None else {}
    # Points that the file holds besides are not drawn, but stay in it.
    stored = [*values, *(value for value in done if value not in values)]

    def collect(values: list) -> Sweep:
        """Return the finished points in this order; complete if that is all."""
        points = tuple(done[value] for value in values if value in done)
        return Sweep(parameter, unit, points, complete=len(points) == len(values))

    with text.progress(parameter, len(values)) as bar:
        try:
            for position, value in enumerate(values):
                bar.set_description_str(f"{parameter} {value}")
                bar.update(position - bar.n)
                if value in done:
                    continue
                one = compare_made(make(value), {"budget": budget, **options})
                done[value] = Point(value, one)
                if path is not None:
                    _save(collect(stored), path)
                if one.interrupted:
                    break
        except KeyboardInterrupt:
            pass
        except Exception as error:
            error.sweep = collect(values)
            error.add_note(f"at {parameter} {value}; the points before are in .sweep")
            raise
    return collect(values)


def _save(sweep: Sweep, path: Any) -> None:
    """Save what is measured; a full disk is no reason to lose or stop anything."""
    try:
        sweep.save(path)
    except OSError as error:
        warnings.warn(f"{error} The sweep goes on in memory.", stacklevel=3)


def _read(path: Any, parameter: str, unit: str) -> dict[Any, Point]:
    """Return the points an earlier run of the same sweep left in *path*."""
    if not Path(path).exists():
        return {}
    before = results.load(path)
    if not isinstance(before, Sweep):
        raise ResultError(f"{Path(path).name} does not hold a sweep: name another file")
    same = (before.parameter, before.unit, before.machine)
    if same != (parameter, unit, Machine.here()):
        raise ResultError(
            f"{Path(path).name} holds another sweep, or one from another machine or "
            "version: name another file, or delete it to measure again"
        )
    return {point.value: point for point in before.points}
