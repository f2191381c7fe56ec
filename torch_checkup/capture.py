"""The part ``capture``: is everything captured, and what lets Dynamo go on?

Options that may remove a graph break are tried: the switches that torch's own words
name, and those of `SWITCHES` that fit the line.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import options
from .helpers import correctness, text
from .helpers.capture import MASK, GraphBreak, Graphs, graphs
from .helpers.session import undisturbed
from .model import Model, answer_of, near
from .options import Captured, Option, Tried, captured, together, tried
from .report import Part

_LOGS = {logging.Logger.info, logging.Logger.warning}
SWITCHES = {  # for words in the line of a break, or in torch's reason
    r"print|warn": Option(
        "torch._dynamo.config.reorderable_logging_functions |= {print, warnings.warn}",
        {"reorderable_logging_functions": {print, warnings.warn}},
        costs="they print when the graph is done",
    ),
    r"log": Option(
        "torch._dynamo.config.ignore_logging_functions |= "
        "{logging.Logger.info, logging.Logger.warning}",
        {"ignore_logging_functions": _LOGS},
        costs="they log nothing from then on",
    ),
}


def part(m: Model) -> Part:
    """Is everything captured?"""
    now, _ = least_captured(m)
    graph, stops = text.count(now.count, "graph"), len(now.breaks)
    verdict, says = "good", "all of it is one graph"
    if not now.count:
        verdict, says = "bad", "nothing was captured: all of it runs eagerly"
    elif stops:
        cut = f" cut it into {graph}" if now.count > stops else f", {graph} captured"
        cut = cut if now.count <= stops + 1 else f", {graph} in all"
        verdict, says = "look", f"{text.count(stops, 'graph break')}{cut}"
    elif now.count > 1:
        says = f"{graph}, without a graph break"
    whole = dict.fromkeys(stop.function for stop in now.breaks if stop.skipped)
    if whole and now.count:
        says += f"; {', '.join(whole)} runs eagerly as a whole"
    messages = filter(None, (stop.message for stop in now.breaks))
    evidence = (*map(str, now.breaks), *messages)
    counts = {"graphs": now.count, "breaks": stops}
    return Part("capture", verdict, says, counts, evidence, tuple(_advice(m)))


@functools.lru_cache(maxsize=1)  # several parts ask
def least_captured(m: Model) -> tuple[Graphs, int]:
    """Return the graphs of the call that is captured least, and its number."""
    every = [graphs(m.program, *inputs, **kwargs) for inputs, kwargs in m.calls]
    least = max(every, key=lambda one: (not one.count, len(one.breaks), one.count))
    return least, every.index(least)


@functools.lru_cache(maxsize=1)
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
    helps = [
        one for one in every if one.helps and options.builds(m, number, one.option)
    ]
    if len(helps) > 1:
        all_at_once = together([one.option for one in helps])
        both = tried(all_at_once, Captured(now), count)
        most = max(one.saved for one in helps)
        more = both.helps and both.saved > most
        helps += [both] if more and options.builds(m, number, all_at_once) else []
    return tuple(helps)


def _advice(m: Model) -> Iterator[str]:
    """Yield the options that help, and of each break what else may be changed."""
    stops, number = least_captured(m)[0].breaks, least_captured(m)[1]
    gone = set[str]()
    for one in helpful(m):
        costs = f" ({one.option.costs})" if one.option.costs else ""
        left = {stop.place for stop in one.after.graphs.breaks}
        new = [s for s in stops if s.place not in left | gone and not s.fix]
        gone |= {stop.place for stop in new}
        why = "".join(f"; then no break at {_shown(s)}: {s.reason}" for s in new)
        yield f"{one.option.line}: {one.effect}{costs}{why}"
    masks = any(stop.fix == MASK for stop in stops)
    tried_out = masked(m, number) if masks else ""
    left = [
        f"{_shown(stop)}: {tried_out}" if stop.fix == MASK else _untried(stop)
        for stop in stops
        if stop.place not in gone
    ]
    yield from dict.fromkeys(left)


class _Masked(TorchFunctionMode):
    """Keep the shape where a mask chooses: zeros in place of what it leaves out."""

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        x, mask, *value = (*args, None, None)[:3]
        chooses = isinstance(mask, torch.Tensor) and mask.dtype == torch.bool
        if chooses and func in (torch.Tensor.__getitem__, torch.masked_select):
            return torch.where(_wide(mask, x), x, 0)
        if chooses and func is torch.Tensor.__setitem__ and _alike(value[0], x):
            return x.copy_(torch.where(_wide(mask, x), value[0], x))
        return func(*args, **kwargs or {})


def _wide(mask: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return mask.reshape(mask.shape + (1,) * (x.dim() - mask.dim()))


def _alike(value: Any, x: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == x.shape


def masked(m: Model, number: int) -> str:
    """Return the advice to compute with a mask, and what that does to the answer.

    Eager is run so: a mean, a norm over rows or a count takes the zeros along.
    """
    inputs, kwargs = m.calls[number]
    usual = options.eager_answers(m, [number])[number]
    try:
        with undisturbed(m.fn), correctness.seeded(0), _Masked():
            ours = answer_of(m.eager, (inputs, kwargs))
    except Exception:
        ours = []
    if [t.shape for t in ours] != [t.shape for t in usual]:
        return f"untried: {MASK}, where each row is computed by itself"
    if near(ours, usual):
        return f"{MASK}: tried eagerly, the answer stays"
    off = max(correctness.size_of(*both)[1] for both in zip(ours, usual, strict=True))
    return (
        f"leave it eager: {MASK} was tried, and changes the answer by up to {off:.2g}, "
        "because what is computed of all rows, as a norm or a mean, takes zeros along"
    )


def _shown(stop: GraphBreak) -> str:
    return (stop.caller or stop.place).rstrip(":")


_NO_HELP = re.compile(r"file an issue|report an issue|is fundamental|logging function")


def _untried(stop: GraphBreak) -> str:
    """Return a change of the user's source for a break, and where; or its cause."""
    place = _shown(stop)
    inside = f"line {stop.line} of {stop.file}, `{stop.source}`"
    if stop.file.startswith("site-packages/torch/"):
        return f"{place}: it stops inside torch, {inside}: torch's own, it can be left"
    if stop.in_library:
        return f"{place}: it stops inside a library, {inside}: {stop.explanation}"
    if stop.fix:
        return f"{place}: untried: {stop.fix}"
    hints = [hint for hint in stop.hints if not _NO_HELP.search(hint)]
    hints = [hint for hint in hints if not options.switches(hint)]
    said = f"untried: {'; '.join(hints)}" if hints else stop.explanation
    return f"{place}: {said or stop.reason}"
