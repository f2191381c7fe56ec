"""The part ``speed``: is it faster, and after how many calls is it paid back?"""

from __future__ import annotations

import math
from contextlib import suppress

from .helpers import text
from .model import Model, race
from .report import Part


def part(m: Model) -> Part:
    """Is it faster, and after how many calls is it paid back?"""
    inputs, kwargs = m.calls[0]
    sides = m.run(m.eager), m.run(m.compiled())
    result = race(sides, inputs, kwargs=kwargs, budget=m.order["budget"])
    paid = result.calls_to_pay_back
    counts = {
        "speedup": round(result.speedup, 4),
        "speedup_low": round(result.interval[0], 4),
        "speedup_high": round(result.interval[1], 4),
        "paid_back": paid if math.isfinite(paid) else None,
    }
    verdict = {"faster": "good", "slower": "bad", "same": "look"}.get(
        result.verdict, "cannot tell"
    )
    pictures = ()
    with suppress(ImportError):  # matplotlib draws it, where it is installed
        pictures = (result.plot()._repr_html_(),)
    says = text.mark(result.ratio())
    return Part("speed", verdict, says, counts, (str(result),), pictures=pictures)
