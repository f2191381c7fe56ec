"""The part ``capture``: is everything captured, and what lets Dynamo go on?

Options that may remove a graph break are tried: the switches that torch's own words
name, and those of `SWITCHES` that fit the line.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from collections.abc import Iterator

from . import options
from .helpers import text
from .helpers.capture import GraphBreak, Graphs, graphs
from .model import Model
from .options import Captured, Option, Tried, captured, together, tried
from .report import Part

SWITCHES = {  # for words in the line of a break, or in torch's reason
    r"print|warn": Option(
        "torch._dynamo.config.reorderable_logging_functions |= {print, warnings.warn}",
        {"reorderable_logging_functions": {print, warnings.warn}},
        costs="they print when the graph is done",
    ),
    r"log": Option(
        "torch._dynamo.config.ignore_logging_functions |= "
        "{logging.Logger.info, logging.Logger.warning}",
        {"ignore_logging_functions": {logging.Logger.info, logging.Logger.warning}},
        costs="they log nothing from then on",
    ),
}


def part(m: Model) -> Part:
    """Is everything captured?"""
    now, number = least_captured(m)
    graph, stops = text.count(now.count, "graph"), len(now.breaks)
    of = "what it compiles" if m.in_pieces else "all of it"
    verdict, says = "good", f"{of} is one graph"
    if not now.count:
        of_call = f" of call {number + 1}" if len(m.calls) > 1 else ""
        verdict, says = "bad", f"nothing was captured{of_call}: all of it runs eagerly"
    elif stops:
        cut = f" cut it into {graph}" if now.count > stops else f", {graph} captured"
        cut = cut if now.count <= stops + 1 else f", {graph} in all"
        verdict, says = "look", f"{text.count(stops, 'graph break')}{cut}"
    elif now.count > 1:
        says = f"{graph}, without a graph break"
    whole = dict.fromkeys(stop.function for stop in now.breaks if stop.skipped)
    if whole and now.count:
        says += f"; {', '.join(whole)} runs eagerly as a whole"
    evidence = (*map(str, now.breaks), *filter(None, (s.message for s in now.breaks)))
    counts = {"graphs": now.count, "breaks": stops}
    return Part("capture", verdict, says, counts, evidence, tuple(_advice(m)))


@functools.lru_cache(maxsize=1)  # several parts ask
def least_captured(m: Model) -> tuple[Graphs, int]:
    """Return the graphs of the call that is captured least, and its number."""
    every = [graphs(m.program, *inputs, **kwargs) for inputs, kwargs in m.calls]
    least = max(every, key=lambda one: (not one.count, len(one.breaks), one.count))
    return least, every.index(least)


def helpful(m: Model) -> tuple[Tried, ...]:
    """Return the options that capture more: each alone, and then all at once."""
    now, number = least_captured(m)
    found = dict[str, Option]()
    for stop in now.breaks:
        words = f"{stop.reason}\n{stop.source}"
        fits = [one for word, one in SWITCHES.items() if re.search(word, words)]
        found |= {one.line: one for one in (*options.switches(stop.message), *fits)}
    count = functools.partial(captured, m, number)
    every = [tried(option, Captured(now), count) for option in found.values()]
    helps = [o for o in every if o.helps and options.builds(m, number, o.option)]
    if len(helps) > 1:
        both = tried(together([one.option for one in helps]), Captured(now), count)
        more = both.ran and both.after.issues < min(o.after.issues for o in helps)
        helps += [both] if more and options.builds(m, number, both.option) else []
    return tuple(helps)


def _advice(m: Model) -> Iterator[str]:
    """Yield the options that help, and of each break what else may be changed."""
    stops = least_captured(m)[0].breaks
    gone = set[str]()
    for one in helpful(m):
        costs = f" ({one.option.costs})" if one.option.costs else ""
        left = {stop.place for stop in one.after.graphs.breaks}
        new = [s for s in stops if s.place not in left | gone and not s.fix]
        gone |= {stop.place for stop in new}
        why = "".join(f"; then no break at {_shown(s)}: {s.reason}" for s in new)
        yield f"{one.option.line}: {one.effect}{costs}{why}"
    fixed = {stop.place for stop in stops if stop.fix}  # what torch hints is less
    left = [s for s in stops if s.place not in gone and (s.fix or s.place not in fixed)]
    yield from dict.fromkeys(map(_untried, left))


def _shown(stop: GraphBreak) -> str:
    return (stop.caller or stop.place).rstrip(":")


_NO_HELP = re.compile("(file|report) an issue|fundamental|logging func|dont_skip_trac")
_TORCH = "site-packages/torch/"


def _untried(stop: GraphBreak) -> str:
    """Return a change of the user's source for a break, and where; or its cause."""
    place = _shown(stop)
    inside = f"line {stop.line} of {stop.file}, `{stop.source}`"
    if stop.file.startswith(_TORCH) or _TORCH in stop.explanation:
        return f"{place}: it stops inside torch, {inside}: torch's own, it can be left"
    if stop.in_library:
        return f"{place}: it stops inside a library, {inside}: {stop.explanation}"
    if stop.fix:
        return f"{place}: untried: {stop.fix}"
    hints = [h for h in stop.hints if not (_NO_HELP.search(h) or options.switches(h))]
    said = f"untried: {'; '.join(hints)}" if hints else stop.explanation
    return f"{place}: {said or stop.reason}"
