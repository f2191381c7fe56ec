"""The part ``capture``: is everything captured?"""

from __future__ import annotations

from .checkups import Part
from .helpers import text
from .helpers.capture import graphs
from .patient import Patient


def captured(p: Patient) -> Part:
    """Is everything captured?"""
    every = [graphs(p.fn, *inputs, **kwargs) for inputs, kwargs in p.calls]
    seen = max(every, key=lambda one: (not one.count, len(one.breaks), one.count))
    graph, stops = text.count(seen.count, "graph"), len(seen.breaks)
    verdict, says = "good", "all of it is one graph"
    if not seen.count:
        verdict, says = "bad", "nothing was captured: all of it runs eagerly"
    elif stops:
        verdict = "look"
        says = f"{text.count(stops, 'graph break')} cut it into {graph}"
    elif seen.count > 1:
        says = f"{graph}, without a graph break"
    messages = filter(None, (stop.message for stop in seen.breaks))
    evidence = (*map(str, seen.breaks), *messages)
    advice = tuple(
        f"line {stop.line} of {stop.file}: {stop.fix or '; '.join(stop.hints)}"
        for stop in seen.breaks
    )
    counts = {"graphs": seen.count, "breaks": stops}
    return Part("capture", verdict, says, counts, evidence, advice)
