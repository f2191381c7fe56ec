"""What the compiler captured, where it stopped, and why it compiled again.

`graphs` shows the graphs and each graph break; `recompiles` what each call cost.
Neither disturbs what is already compiled in the session.
"""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from helpers import advice, compat, isolate
from helpers.results import stored
from helpers.text import Table, count, pre
from helpers.watch import Watch


@dataclass(frozen=True)
class Graph:
    """One captured graph: its operations in order, by the name of the function."""

    ops: tuple[str, ...]

    def __str__(self) -> str:
        return f"{count(len(self.ops), 'op')}: {', '.join(self.ops)}"

    __repr__ = __str__


@dataclass(frozen=True)
class GraphBreak:
    """A place where capture stopped: torch's reason, your line, the usual fix."""

    reason: str
    line: int
    source: str
    function: str
    file: str
    fix: str
    skipped: bool = False

    def __str__(self) -> str:
        after = ", so the whole function runs eagerly" if self.skipped else ""
        return (
            f"line {self.line} of {self.file}, in {self.function}: {self.source}\n"
            f"  why: {self.reason}{after}\n  fix: {self.fix}"
        )

    __repr__ = __str__


@stored
@dataclass(frozen=True)
class Graphs:
    """The graphs captured in one call, and the places where capture stopped."""

    graphs: tuple[Graph, ...]
    breaks: tuple[GraphBreak, ...]

    @property
    def count(self) -> int:
        """How many graphs were captured; 0 means that nothing is compiled."""
        return len(self.graphs)

    @property
    def ops(self) -> tuple[str, ...]:
        """The operations of all graphs, in order."""
        return tuple(op for graph in self.graphs for op in graph.ops)

    def __str__(self) -> str:
        head = f"{count(self.count, 'graph')}, {count(len(self.breaks), 'graph break')}"
        if not self.count:
            head += ": nothing was captured, all of it runs eagerly"
        graphs = [f"graph {i}: {graph}" for i, graph in enumerate(self.graphs, 1)]
        breaks = [f"break {i}: {stop}" for i, stop in enumerate(self.breaks, 1)]
        return "\n".join([head, *graphs, *breaks])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return pre(self)


def graphs(fn: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Graphs:
    """Return the graphs captured when *fn* is called, and each graph break.

    Runs ``fn(*inputs, **kwargs)`` once on copies of the tensors.  A compiled
    function is unwrapped and captured anew.  Source: the structured log of the
    compiler and the graphs that a back end receives.

    Raises InputError when *fn* raises, or the inputs are on two devices.
    """
    isolate.check_callable(fn, (inputs, kwargs))
    found: list[Graph] = []

    def backend(graph: Any, _: Any) -> Any:
        found.append(Graph(tuple(_op_names(graph))))
        return graph

    with isolate.undisturbed(fn), compat.trace() as events:
        isolate.call(isolate.compile_apart(fn, backend=backend), inputs, kwargs)
    return Graphs(tuple(found), _breaks(events, _home(fn)))


def _op_names(graph: Any) -> list[str]:
    names = []
    for node in graph.graph.nodes:
        if node.op == "call_module":
            names.append(type(graph.get_submodule(node.target)).__name__)
        elif node.op in ("call_function", "call_method"):
            name = getattr(node.target, "__name__", str(node.target))
            names.append(name.split(".")[0].strip("_"))
    return names


_Frame = tuple[str, str, str, str]
"""File, line, function and source, as torch prints them."""


def _home(fn: Any) -> list[_Frame]:
    """Return where *fn* begins: the place of a break before its first line."""
    fn = getattr(fn, "_torchdynamo_orig_callable", fn)
    fn = getattr(fn, "forward", fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return []
    file, line = code.co_filename, code.co_firstlineno
    return [(file, str(line), code.co_name, linecache.getline(file, line))]


def _breaks(events: list[compat.Event], home: list[_Frame]) -> tuple[GraphBreak, ...]:
    places: dict[Any, GraphBreak] = {}
    for event in events:
        if event.kind == "dynamo_graph_break_reason":
            # A function that is inlined and then compiled by itself, or traced
            # again, reports the same place twice; the carets tell two apart that
            # share a line.
            stop, carets = _read_break(event.payload, home)
            key = stop.file, stop.line, stop.reason, carets
            places[key] = stop if stop.skipped else places.get(key, stop)
    return tuple(places.values())


_FRAME = re.compile(r'  File "(.+)", line (\d+), in (\S+)\n((?:    .*\n?)*)')


def _read_break(payload: str, home: list[_Frame]) -> tuple[GraphBreak, str]:
    head, _, rest = payload.partition("User code traceback:")
    why = head.partition("Graph Break Reason:")[2].strip()
    skipped = "Skipping the function" in why.split("\n")[0]
    lines = [line.strip() for line in why.split("\n") if line.strip()]
    lines = [line for line in lines if not line.endswith(":")] or [why]
    stack = rest.partition("Traceback (most recent call last)")[0]
    frames = _FRAME.findall(stack)
    at = re.search(r"user code at (.+):(\d+)", head)
    if not frames and at:
        frames = [(at[1], at[2], "?", linecache.getline(at[1], int(at[2])))]
    # What comes before the last of these called *fn*, and is not of it.
    callers = [i for i, frame in enumerate(frames) if frame[0].startswith(_HELPERS)]
    inner = frames[callers[-1] + 1 :] if callers else frames
    mine = [frame for frame in inner if not _is_library(frame[0])] or home or frames
    file, line, function, shown = mine[-1] if mine else ("?", "0", "?", "")
    source, _, carets = shown.partition("\n")
    fix = advice.fix_for(why.partition("Hint:")[0], source)
    name = advice.original_name(function)
    reason = lines[0].rstrip(".")
    place = _file_name(file)
    stop = GraphBreak(reason, int(line), source.strip(), name, place, fix, skipped)
    return stop, carets.rstrip()


_LIBRARIES = tuple({sysconfig.get_path(k) for k in ("stdlib", "purelib", "platlib")})
_HELPERS = os.path.join(Path(__file__).parent, "")


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or file.startswith("<frozen")


def _file_name(file: str) -> str:
    """Return a name that is the same on every machine."""
    if "ipykernel" in file or file.startswith("<ipython"):
        return "the cell"
    return PurePath(file).name


@dataclass(frozen=True)
class Call:
    """What one call cost: compiles, why in words, and the guards as torch has them."""

    compiles: int
    reasons: tuple[str, ...]
    guards: tuple[str, ...]


@stored
@dataclass(frozen=True)
class Recompiles:
    """What each call of a function cost in compiles, and why."""

    calls: tuple[Call, ...]
    limit_hit: bool

    @property
    def counts(self) -> tuple[int, ...]:
        """The compiles of each call, in order."""
        return tuple(call.compiles for call in self.calls)

    @property
    def total(self) -> int:
        """The compiles of all calls."""
        return sum(self.counts)

    def table(self) -> Table:
        """Return a row for each call."""
        rows = [
            (i, call.compiles, "; ".join(call.reasons))
            for i, call in enumerate(self.calls, 1)
        ]
        return Table.of(("call", "compiles", "why"), rows)

    def __str__(self) -> str:
        return f"{self.table()}\n{self._last()}"

    __repr__ = __str__

    def _last(self) -> str:
        limit = "; the recompile limit was hit: new inputs run eagerly from then on"
        calls, compiles = count(len(self.calls), "call"), count(self.total, "compile")
        return f"{calls}, {compiles}{limit if self.limit_hit else ''}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + pre(self._last())


def recompiles(
    fn: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    backend: str | Callable[..., Any] = "eager",
    dynamic: bool | None = None,
) -> Recompiles:
    """Return how many compiles each call of *fn* cost, and why.

    *calls* has the inputs of each call, a tuple for each.  A plain function is
    compiled apart from the session, with *backend* and *dynamic* as for
    ``torch.compile``.  A function that is compiled already is used as it is: its
    cache counts, and the calls fill it.  Source: torch's history of compiles.

    Raises InputError when a call raises, or *calls* holds no tuples.
    """
    calls = list(calls)
    if not calls or not all(isinstance(call, tuple) for call in calls):
        raise isolate.InputError(
            "calls must be a list of tuples, the inputs of each call: "
            "recompiles(f, [(x,), (y,)])"
        )
    isolate.check_callable(fn, ())
    if compat.is_compiled(fn):
        return _count(fn, calls)
    with isolate.undisturbed(fn):
        apart = isolate.compile_apart(fn, backend=backend, dynamic=dynamic)
        return _count(apart, calls)


def _count(fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> Recompiles:
    found, limit = [], False
    for inputs in calls:
        with Watch() as watch:
            isolate.call(fn, inputs, {})
        first = ("first call",) if watch.compiles and not watch.reasons else ()
        words = tuple(dict.fromkeys(map(advice.in_words, watch.reasons)))
        found.append(Call(watch.compiles, words or first, watch.reasons))
        limit = limit or watch.limit_hit
    return Recompiles(tuple(found), limit)
