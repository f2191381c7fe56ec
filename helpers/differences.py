"""A difference between a function that runs eagerly and the same function compiled.

`judge` finds them.  This module needs no torch, because a report is read without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .text import Table, mark

_LOOK = ("stride", "sign of zero")
_HEAD = ("call", "place", "field", "eager", "compiled", "how many", "off from float64")


@dataclass(frozen=True)
class Difference:
    """One field of one place that is not eager's, and what both sides have there.

    *call* counts from 1.  *place* is ``output['boxes']``, ``input x after the call``,
    ``parameter body.weight after the call``, ``gradient of body.weight``, ``buffer n``
    or ``the call``.  *field* is ``raises``, ``exception``, ``type``, ``dtype``,
    ``shape``, ``missing``, ``extra``, ``values``, ``nan/inf``, ``requires_grad``,
    ``alias``, ``identity``, ``stride`` or ``sign of zero``.  Of values, *count* of *of*
    numbers are not eager's, and *off_eager* and *off_compiled* are the largest
    distances from float64; None where that means nothing.  *note* says what else is
    known, such as how often it was seen.  *ended*: how compiled code ended its process.
    """

    call: int
    place: str
    field: str
    eager: str
    compiled: str
    count: int | None = None
    of: int | None = None
    off_eager: float | None = None
    off_compiled: float | None = None
    note: str = ""
    ended: str = ""

    @property
    def look(self) -> bool:
        """Whether it changes no answer: a stride, a zero's sign, an assert's class."""
        asserted = self.eager.replace("AssertionError", "RuntimeError", 1)
        of_class = self.field == "exception" and self.compiled == asserted
        return of_class or self.field in _LOOK

    @property
    def of_break(self) -> bool:
        """Whether it is a graph break where its author allows none."""
        begins = "Unsupported", "UserError: Could not guard on data-dep"
        return self.field == "raises" and self.compiled.startswith(begins)

    @property
    def of_promise(self) -> bool:
        """Whether it is a marked size that does not keep what its mark promises."""
        return self.field == "raises" and self.compiled.startswith("ConstraintViol")

    @property
    def where(self) -> tuple[str, str]:
        """Place and field, by which it is found again in another run."""
        return self.place, self.field

    @property
    def many(self) -> str:
        """How many numbers differ, of how many; '' where that means nothing."""
        return "" if self.count is None else f"{self.count:,} of {self.of:,}"

    @property
    def off(self) -> str:
        """How far both sides are from float64; '' where that means nothing."""
        if self.off_eager is None or self.off_compiled is None:
            return ""
        return mark(f"{self.off_eager:.2g}, {self.off_compiled:.2g}")

    @property
    def short(self) -> str:
        """Where it is, and what both sides have."""
        words = f"call {self.call}, {self.place}, {self.field}"
        return f"{words}: eager {self.sides[0]}, compiled {self.sides[1]}"

    @property
    def says(self) -> str:
        """What is wrong with the compiled side, in one sentence for its author."""
        raises = f"raises {self.compiled}"
        if self.field == "raises":
            return raises if self.eager == "runs" else "doesn't raise"
        if self.field == "exception":
            return f"{raises} instead of {self.eager}"
        if self.field in ("missing", "extra"):
            what = self.eager if self.field == "missing" else self.compiled
            return f"{self.place} is {self.field}: {what}"
        if self.field in ("values", "nan/inf"):
            many = f" ({self.many} differ)" if self.of and self.of > 1 else ""
            left = self.of and self.place.endswith("after the call")
            verb = "changed by" if left else "is"
            return f"{self.place} {verb} {self.compiled} instead of {self.eager}{many}"
        return f"{self.place} has {self.field} {self.compiled} instead of {self.eager}"

    @property
    def sides(self) -> tuple[str, str]:
        """What eager and compiled have; numbers are marked, for machines round them."""
        if self.field in ("values", "nan/inf"):
            return mark(self.eager), mark(self.compiled)
        return self.eager, self.compiled

    def __str__(self) -> str:
        off = f"off from float64 (eager, compiled): {self.off}" if self.off else ""
        return "; ".join(filter(None, (self.short, self.many, off, self.note)))


def table(found: Iterable[Difference]) -> Table:
    """Return a row for each difference, without the columns that none of them has."""
    rows = []
    for one in found:
        field = f"{one.field} ({one.note})" if one.note else one.field
        sides = [s[:79] for s in one.sides] if one.field == "raises" else one.sides
        rows.append((str(one.call), one.place, field, *sides, one.many, one.off))
    columns = list(zip(_HEAD, *rows, strict=True))
    head, *rows = zip(*(c for c in columns if any(c[1:])), strict=True)
    return Table.of(head, rows)
