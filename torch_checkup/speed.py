"""The part ``speed``: is it faster, and after how many calls is it paid back?"""

from __future__ import annotations

from contextlib import suppress

from .helpers import text
from .helpers.text import Table
from .model import Model, race
from .report import Part, paid_back
from .start import lookups


def part(m: Model) -> Part:
    """Is it faster, and after how many calls is it paid back?"""
    inputs, kwargs = m.calls[0]
    sides, known = (m.run(m.eager), m.run(m.compiled())), _found()
    result = race(m, sides, inputs, kwargs=kwargs, budget=m.order["budget"])
    cache = "warm cache: other parts filled it" if _found() > known else "empty cache"
    eager_s, compiled_s = result.median_s
    counts = {
        "speedup": round(result.speedup, 4),
        "speedup_low": round(result.interval[0], 4),
        "speedup_high": round(result.interval[1], 4),
        "eager_s": eager_s,
        "compiled_s": compiled_s,
    }
    verdict = {"faster": "good", "slower": "bad", "same": "look"}.get(
        result.verdict, "cannot tell"
    )
    pictures = ()
    with suppress(ImportError):  # matplotlib draws it, where it is installed
        pictures = (result.plot()._repr_html_(),)
    table = result.table()
    rows = [row for row in table.rows if row[0] != "paid back after"]
    evidence = (Table.of(table.headings, rows),)
    says = text.mark(result.ratio())
    found = Part("speed", verdict, says, counts, evidence, pictures=pictures)
    return paid_back(found, result.cold_start_s, cache)


def _found() -> int:
    """Return how often a cache had what a compile of this process needed."""
    return sum(one["hits"] for one in lookups([]))
