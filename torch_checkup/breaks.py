"""The part ``capture``: is everything captured, and what lets Dynamo go on?

What may mend a graph break is tried: the switches that torch's own words name, those of
`SWITCHES` that fit the line.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from . import cures
from .checkups import Part
from .cures import Cure
from .helpers import text
from .helpers.capture import GraphBreak, Graphs, graphs
from .patient import Patient

# ------------------------------------------------------------------------- the part


def captured(p: Patient) -> Part:
    """Is everything captured?"""
    seen = seen_of(p).now
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
    counts = {"graphs": seen.count, "breaks": stops}
    return Part("capture", verdict, says, counts, evidence, tuple(_advice(p)))


@dataclass(frozen=True)
class Seen:
    """What is captured of the call that is captured least, and its number."""

    now: Graphs
    number: int


@functools.lru_cache(maxsize=1)  # several parts ask
def seen_of(p: Patient) -> Seen:
    """Return what is captured of the patient's call that is captured least."""
    every = [graphs(p.fn, *inputs, **kwargs) for inputs, kwargs in p.calls]
    least = max(every, key=lambda one: (not one.count, len(one.breaks), one.count))
    return Seen(least, every.index(least))


# ------------------------------------------------------------------------- the cures


_LOGS = {logging.Logger.info, logging.Logger.warning}
SWITCHES = {  # for what stands in the line of a break, or in torch's reason
    r"print|warn": Cure(
        "torch._dynamo.config.reorderable_logging_functions |= {print, warnings.warn}",
        {"reorderable_logging_functions": {print, warnings.warn}},
        costs="they print when the graph is done",
    ),
    r"log": Cure(
        "torch._dynamo.config.ignore_logging_functions |= "
        "{logging.Logger.info, logging.Logger.warning}",
        {"ignore_logging_functions": _LOGS},
        costs="they log nothing from then on",
    ),
}


@dataclass(frozen=True)
class Mended:
    """A cure that helps, what is captured with it, and what that is of breaks."""

    cure: Cure
    after: Graphs
    effect: str
    saved: int


@functools.lru_cache(maxsize=1)
def mended(p: Patient) -> tuple[Mended, ...]:
    """Return what captures more, alone and, where several do, all of it at once."""
    seen = seen_of(p)
    found = dict[str, Cure]()
    for stop in seen.now.breaks:
        words = f"{stop.reason}\n{stop.source}"
        fits = [cure for word, cure in SWITCHES.items() if re.search(word, words)]
        found |= {cure.line: cure for cure in (*cures.switches(stop.message), *fits)}
    helpful = [one for cure in found.values() if (one := _tried(p, cure))]
    if len(helpful) > 1:
        most = max(one.saved for one in helpful)
        every = _tried(p, cures.together([one.cure for one in helpful]))
        helpful += [every] if every and every.saved > most else []
    return tuple(helpful)


def _tried(p: Patient, cure: Cure) -> Mended | None:
    """Return what a cure brings, if it captures more."""
    seen = seen_of(p)
    try:
        after = cures.captured_with(p, cure, seen.number)
        more = cures.stopped(after) < cures.stopped(seen.now)
        if not more or not cures.agrees(p, cure, seen.number):
            return None
    except Exception:  # with this cure it raises
        return None
    saved = max(len(seen.now.breaks) - len(after.breaks), 1)
    return Mended(cure, after, cures.captures(seen.now, after), saved)


# ------------------------------------------------------------------------ the advice


def _advice(p: Patient) -> Iterator[str]:
    """Yield what was tried and helps, and of each break what else its cause is."""
    helpful = mended(p)
    for one in helpful:
        costs = f" ({one.cure.costs})" if one.cure.costs else ""
        yield f"{one.cure.line}: {one.effect}{costs}"
    gone = [{stop.place for stop in one.after.breaks} for one in helpful]
    left = [
        _untried(stop)
        for stop in seen_of(p).now.breaks
        if stop.fix or all(stop.place in places for places in gone)
    ]
    yield from dict.fromkeys(left)


_NO_HELP = re.compile(r"file an issue|report an issue|is fundamental|logging function")


def _untried(stop: GraphBreak) -> str:
    """Return what the user may change for a break, and where; or its cause."""
    place = (stop.caller or stop.place).rstrip(":")
    inside = f"line {stop.line} of {stop.file}, `{stop.source}`"
    if stop.file.startswith("site-packages/torch/"):
        return f"{place}: it stops inside torch, {inside}: torch's own, it can be left"
    if stop.in_library:
        return f"{place}: it stops inside a library, {inside}: {stop.explanation}"
    if stop.fix:
        return f"{place}: untried: {stop.fix}"
    hints = [hint for hint in stop.hints if not _NO_HELP.search(hint)]
    hints = [hint for hint in hints if not cures.switches(hint)]
    said = f"untried: {'; '.join(hints)}" if hints else stop.explanation
    return f"{place}: {said or stop.reason}"
