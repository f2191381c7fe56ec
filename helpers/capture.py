"""What the compiler captured, where it stopped, and why it compiled again.

`graphs` shows the graphs and each graph break; `recompiles` what each call cost.
Neither disturbs what is already compiled in the session.

torch's reasons in words: what removes a graph break, which guard failed.

What the compiler did in a region: compiles, recompiles, graphs, graph breaks.

Free while nothing compiles: read ``watch.compiles`` after each block.
"""

from __future__ import annotations

import copy
import linecache
import os
import re
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import torch

from helpers import _torch, session
from helpers.errors import InputError
from helpers.results import Result
from helpers.text import Table, count, pre

# What usually removes a graph break.  The first row decides whose pattern is in
# torch's reason (r) or in the source line (s).
_FIXES = (
    ("r", r"_dynamo\.graph_break\(\)", "remove the call that asks for the break"),
    (
        "r",
        r"[Dd]ata-dependent branching|generic_jump",
        "choose with torch.where, or torch.cond for two long branches",
    ),
    (
        "r",
        r"Tensor\.(?:item|tolist)\(\)",
        "keep the value a tensor: no .item(), .tolist(), float() or int()",
    ),
    (
        "r",
        r"Dynamic shape operator",
        "keep the shape fixed: torch.where(mask, x, 0) instead of x[mask]",
    ),
    (
        "r",
        r"compiler\.disable",
        "remove torch.compiler.disable, or call that function outside",
    ),
    (
        "r",
        r"\.backward\(\)|autograd\.grad|requires_grad_\(\)",
        "compile the forward only, and ask for gradients outside",
    ),
    ("r", r"context manager", "move that with block out of the compiled function"),
    (
        "s",
        r"\bprint\(|\blog(?:ging|ger)?\.|\bwarnings?\.",
        "print, log or warn outside the compiled function",
    ),
    (
        "s",
        r"\brandom\.|\brand(?:int|n)?\(",
        "draw with torch.rand, or pass the number in as a tensor",
    ),
    (
        "s",
        r"\btime\.|datetime|\bopen\(|\bos\.|\binput\(",
        "do it before or after the call, and pass the result in",
    ),
    (
        "s",
        r"\bfloat\(|\bint\(|\bbool\(",
        "keep the value a tensor: no .item(), .tolist(), float() or int()",
    ),
    (
        "r",
        r"marked as skipped|[Bb]uiltin|C function",
        "use a torch function, or wrap it with torch.library.custom_op",
    ),
)
_OTHER = "move the line out of the compiled function, or write it with torch functions"

_WORDS = (
    (
        r"tensor '(.+?)' size mismatch at index (\d+)\. expected (\S+), actual (\S+)",
        "{0} has size {3} in dimension {1}, compiled for {2}",
    ),
    (
        r"tensor '(.+?)' stride mismatch at index (\d+)\. expected (\S+), actual (\S+)",
        "{0} has stride {3} in dimension {1}, compiled for {2}",
    ),
    (
        r"tensor '(.+?)' dtype mismatch\. expected (\S+), actual (\S+)",
        "{0} has dtype {2}, compiled for {1}",
    ),
    (
        r"tensor '(.+?)' rank mismatch\. expected (\S+), actual (\S+)",
        "the number of dimensions of {0} is {2}, compiled for {1}",
    ),
    (
        r"tensor '(.+?)' requires_grad mismatch",
        "{0} differs in whether it requires gradients",
    ),
    (
        r"tensor '(.+?)' (?:Tensor )?(?:device|dispatch key)",
        "{0} is on another device, or another kind of tensor",
    ),
    (r"GLOBAL_STATE changed: (\w+)", "the global setting {0} changed"),
    (r"check_obj_id\((?:L\[')?(\w+)", "{0} is another object"),
    (r"check_type_id\((?:L\[')?(\w+)", "{0} has another type"),
    (r"^(?:L\[')?([\w.]+)(?:'\])? == (.+)", "{0} is no longer {1}"),
)


def fix_for(reason: str, source: str) -> str:
    """Return what usually removes a graph break with this *reason* and *source*."""
    texts = {"r": reason, "s": source}
    for where, pattern, fix in _FIXES:
        if re.search(pattern, texts[where]):
            return fix
    return _OTHER


def in_words(guard: str) -> str:
    """Return the failed *guard* in words, or as it is when no words are known."""
    for pattern, words in _WORDS:
        if match := re.search(pattern, guard):
            return words.format(*match.groups())
    return guard


def short(reason: str | None) -> str:
    """Return a recompile reason on one line, without ids, paths and stack."""
    line = (reason or "").strip().split("\n")[0]
    line = re.sub(r"^\d+/\d+: |\s+#.*$|\s*\(HINT: .*$", "", line)
    return re.sub(r"\b\d{7,}\b", "…", line).strip()  # addresses


def original_name(name: str) -> str:
    """Return the user's name of a function that resumes after a graph break."""
    return re.sub(r"^(torch_dynamo_resume_in_)+|(_at_\d+)+$", "", name)


_NO_GPU = "CUDA graphs need tensors on an NVIDIA GPU"
_SKIPPED = "CUDA graphs were skipped: TORCH_LOGS=cudagraphs says why"


class Compile(NamedTuple):
    """A compile: function, reason, and ``forward``, ``backward`` or ``skipped``."""

    name: str
    reason: str
    kind: str


class Watch:
    """What the compiler did inside a ``with`` block, to be read during and after.

    Reads torch's own history of compiles, so nothing is installed.  torch keeps
    the last 64; of more than that, 64 are counted."""

    def __enter__(self) -> Watch:
        self._last = [*_torch.compilation_metrics][-1:]
        self._before = copy.deepcopy(_torch.counters)
        self._end: tuple[list[Any], Any] | None = None
        return self

    def __exit__(self, *exc: object) -> None:
        self._end = self._new(), copy.deepcopy(_torch.counters)

    def _new(self) -> list[Any]:
        if self._end:
            return self._end[0]
        found: list[Any] = []
        for record in reversed(_torch.compilation_metrics):
            if self._last and record is self._last[0]:
                break
            found.insert(0, record)
        return found

    def _grown(self, group: str) -> dict[str, int]:
        now = (self._end[1] if self._end else _torch.counters)[group]
        before = self._before[group]
        return {k: n - before[k] for k, n in now.items() if n > before[k]}

    @property
    def events(self) -> tuple[Compile, ...]:
        """The compiles so far, each with torch's reason ('' for a first one)."""
        found = []
        for record in self._new():
            if not record.is_runtime and not _at_limit(record.fail_reason):
                kind = "backward" if record.is_forward is False else "forward"
                kind = "skipped" if record.fail_type else kind
                name = original_name(record.co_name or "")
                found.append(Compile(name, short(record.recompile_reason), kind))
        return tuple(found)

    @property
    def compiles(self) -> int:
        """How many compiles so far; cheap enough to read between two blocks."""
        return len(self.events)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it recompiled, each reason once."""
        return tuple(dict.fromkeys(e.reason for e in self.events if e.reason))

    @property
    def graphs(self) -> int:
        """How many graphs were captured: 0 means that nothing was."""
        return self._grown("stats").get("unique_graphs", 0)

    @property
    def break_reasons(self) -> tuple[str, ...]:
        """The first line of the reason of each kind of graph break."""
        seen = {**self._grown("graph_break"), **self._grown("unimplemented")}
        return tuple(text.split("\n")[0] for text in seen if not _at_limit(text))

    @property
    def graph_breaks(self) -> int:
        """How many kinds of graph break were seen; graphs() shows each of them."""
        return len(self.break_reasons)

    @property
    def limit_hit(self) -> bool:
        """Whether the recompile limit was hit: new inputs run eagerly since."""
        return any(_at_limit(record.fail_reason) for record in self._new())

    @property
    def ignored(self) -> tuple[str, ...]:
        """Why CUDA graphs that the mode asked for were not used, if so."""
        reasons = [record.cudagraph_skip_reason for record in self._new()]
        if not any(reasons) and self._grown("inductor").get("cudagraph_skips"):
            reasons = [_SKIPPED if torch.cuda.is_available() else _NO_GPU]
        return tuple(dict.fromkeys(filter(None, reasons)))

    @property
    def recordings(self) -> int:
        """How many CUDA graphs were recorded."""
        return sum(bool(r.runtime_cudagraphify_time_us) for r in self._new())


def _at_limit(text: str | None) -> bool:
    return bool(text) and "recompile limit exceeded" in text


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


@dataclass(frozen=True, repr=False)
class Graphs(Result):
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
    session.check_callable(fn, (inputs, kwargs))
    found: list[Graph] = []

    def backend(graph: Any, _: Any) -> Any:
        found.append(Graph(tuple(_op_names(graph))))
        return graph

    with session.undisturbed(fn), _torch.trace() as events:
        session.call(session.compile_apart(fn, backend=backend), inputs, kwargs)
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


def _breaks(events: list[_torch.Event], home: list[_Frame]) -> tuple[GraphBreak, ...]:
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
    fix = fix_for(why.partition("Hint:")[0], source)
    name = original_name(function)
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


@dataclass(frozen=True, repr=False)
class Recompiles(Result):
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
        raise InputError(
            "calls must be a list of tuples, the inputs of each call: "
            "recompiles(f, [(x,), (y,)])"
        )
    session.check_callable(fn, ())
    if _torch.is_compiled(fn):
        return _count(fn, calls)
    with session.undisturbed(fn):
        apart = session.compile_apart(fn, backend=backend, dynamic=dynamic)
        return _count(apart, calls)


def _count(fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> Recompiles:
    found, limit = [], False
    for inputs in calls:
        with Watch() as watch:
            session.call(fn, inputs, {})
        first = ("first call",) if watch.compiles and not watch.reasons else ()
        words = tuple(dict.fromkeys(map(in_words, watch.reasons)))
        found.append(Call(watch.compiles, words or first, watch.reasons))
        limit = limit or watch.limit_hit
    return Recompiles(tuple(found), limit)
