"""sweep(): compare over a size, a chain length, a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from . import text
from .benchmark import Comparison, compare
from .results import Measured, TableResult
from .text import mark


@dataclass(frozen=True, repr=False)
class Sweep(Measured, TableResult):
    """A comparison per value of one parameter; *complete* unless interrupted."""

    parameter: str
    unit: str
    values: tuple[int | float | str, ...]
    comparisons: tuple[Comparison, ...]
    complete: bool

    def plot(self) -> Any:
        """Return a picture of the points: both times, and the speed-up at each."""
        from .plots import plot_comparison

        labels = [f"{self.parameter} {value} {self.unit}" for value in self.values]
        return plot_comparison(*self.comparisons, labels=labels)

    def table(self) -> text.Table:
        """Return one row per point, measured values marked."""
        head = f"{self.parameter} ({self.unit})" if self.unit else self.parameter
        rows = []
        for value, race in zip(self.values, self.comparisons, strict=True):
            cells = (*map(text.seconds, race.median_s), race.ratio())
            rows.append((value, *map(mark, cells)))
        names = self.comparisons[0].names if self.comparisons else ("a", "b")
        title = "" if self.complete else "interrupted: these points are finished"
        return text.Table.of([head, *names, "speed-up"], rows, title)


def sweep(
    make: Callable[[Any], tuple],
    values: Iterable[int | float | str],
    *,
    parameter: str,
    unit: str = "",
    budget: float = 1.0,
    **options: Any,
) -> Sweep:
    """Return ``compare`` over the *values* of one parameter.

    *make(value)* returns ``(eager, compiled, inputs)``, where inputs is one tensor or a
    tuple.  *parameter* and *unit* name the values.  *budget* is seconds of timing per
    point, half of a comparison's, as there are several; ``compare`` gets *options*.

    Ctrl-C ends it early and keeps every finished point.  One function compiled for more
    than eight sizes needs ``dynamic=True``, or torch stops compiling it.

    Raises ValueError for *values* that make no sweep, and what ``compare`` raises, with
    the points before it in its attribute ``sweep``.
    """
    values = list(values)
    plain = all(isinstance(value, (int, float, str)) for value in values)
    if not values or not plain or len(set(values)) < len(values):
        raise ValueError(
            "a sweep needs different values, plain numbers or words (.tolist() of an "
            f"array), and at least one: not {values}"
        )
    races: list[Comparison] = []

    def finished() -> Sweep:
        done = tuple(values[: len(races)])
        complete = len(done) == len(values) and not races[-1].interrupted
        return Sweep(parameter, unit, done, tuple(races), complete)

    with text.progress(parameter, len(values)) as bar, suppress(KeyboardInterrupt):
        for value in values:
            bar.set_description_str(f"{parameter} {value}")
            try:
                eager, compiled, inputs = make(value)
                inputs = inputs if isinstance(inputs, tuple) else (inputs,)
                race = compare(eager, compiled, *inputs, budget=budget, **options)
            except Exception as error:
                error.sweep = finished()
                error.add_note(f"at {parameter} {value}; what is done is in .sweep")
                raise
            races.append(race)
            bar.update()
            if race.interrupted:
                break
    return finished()
