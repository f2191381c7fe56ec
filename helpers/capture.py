"""What the compiler captured, where it stopped, and why it compiled again.

`graphs` shows the graphs and each graph break, `recompiles` what each call cost;
neither disturbs what is already compiled in the session.  `Watch` counts what the
compiler does in a block, and costs nothing while nothing compiles.
"""

from __future__ import annotations

import copy
import html
import linecache
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from traceback import FrameSummary
from typing import Any

import torch

from . import _torch, frames, session
from .errors import InputError
from .frames import LIBRARY
from .results import Result, TableResult
from .tensors import clone
from .text import Table, code_of, count, pre

_WORDS = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))

# ---------------------------------------------------------------- graphs and breaks


@dataclass(frozen=True)
class Graph:
    """One captured graph: its operations in order, by the name of the function."""

    ops: tuple[str, ...]

    def __str__(self) -> str:
        return f"{count(len(self.ops), 'op')}: {', '.join(self.ops)}"

    __repr__ = __str__


@dataclass(frozen=True)
class GraphBreak:
    """A place where capture stopped, and why.

    *line*, *source*, *function* and *file* are those of the line that breaks; *way* has
    the lines that lead to it, the outermost first, each with its source.  *reason* is
    torch's in one line, *hints* its advice, *explanation* its cause, and *message* all
    that it says.  *fix* is what removes such a break, or '' where only torch's hints
    are known to be right, and in a library, which its caller does not change.
    *skipped*: a whole function runs eagerly, this one or one that calls it.
    """

    reason: str
    line: int
    source: str
    function: str
    file: str
    fix: str
    skipped: bool = False
    hints: tuple[str, ...] = ()
    message: str = ""
    way: tuple[str, ...] = ()
    explanation: str = ""

    @property
    def place(self) -> str:
        """The line that breaks, in words."""
        return f"line {self.line} of {self.file}, in {self.function}: {self.source}"

    @property
    def in_library(self) -> bool:
        """Whether the line that breaks is a library's."""
        return self.file.startswith(LIBRARY)

    @property
    def caller(self) -> str:
        """The line of the caller's that leads into the library that breaks, or ''."""
        callers = [line for line in self.way if f" of {LIBRARY}" not in line]
        return callers[-1] if callers and self.in_library else ""

    def __str__(self) -> str:
        eagerly = ", so a whole function runs eagerly" if self.skipped else ""
        lines = [self.place, *([f"  from: {self.caller}"] if self.caller else [])]
        lines.append(f"  why: {self.reason}{eagerly}")
        advice = [f"  fix: {self.fix}"] if self.fix else []
        advice = advice or [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(lines + (advice or [f"  torch: {self.explanation}"]))

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

    def _repr_html_(self) -> str:
        shown = pre(self)
        for i, stop in enumerate(self.breaks, 1):
            title = f"break {i} in torch's words: {html.escape(stop.reason)}"
            words = pre("\n".join([*stop.way, "", stop.message]))
            shown += f"<details><summary>{title}</summary>{words}</details>"
        return shown


def graphs(fn: Callable[..., Any], /, *inputs: Any, **kwargs: Any) -> Graphs:
    """Return the graphs captured when *fn* is called, and each graph break.

    Runs ``fn(*inputs, **kwargs)`` once on copies of the tensors, which may stand in
    lists, dictionaries and other objects.  A compiled function is unwrapped and
    captured anew.  Source: the structured log of the compiler and the graphs that a
    back end receives.

    Raises InputError when *fn* raises, or the inputs are on two devices.
    """
    session.check_callable(fn, (inputs, kwargs))
    captured: list[Graph] = []

    def backend(graph: Any, _: Any) -> Any:
        calls = [n.target for n in graph.graph.nodes if n.op.startswith("call_")]
        captured.append(Graph(tuple(map(op_name, calls))))
        return graph

    with session.undisturbed(fn), _torch.trace() as events:
        session.call(session.compile_apart(fn, backend=backend), inputs, kwargs)
    return Graphs(tuple(captured), breaks_among(events, fn))


def op_name(target: Any) -> str:
    """Return ``sin`` or ``add`` for a torch function, method or aten operation."""
    if "triton_kernel_wrapper" in str(target):
        return "your kernel"
    name = getattr(target, "__name__", str(target)).split(".")[0].strip("_")
    return name.removeprefix("native_").removeprefix("safe_")


def breaks_among(events: list[_torch.Event], fn: Any) -> tuple[GraphBreak, ...]:
    """Return the graph breaks among *events*, each place once.

    A function that is inlined and then compiled by itself, or traced again, reports the
    same place twice; two places may share a line, and differ in the column.
    """
    places: dict[Any, GraphBreak] = {}
    for event in events:
        if event.kind == "dynamo_graph_break_reason":
            *callers, at = _frames_of(event.stack, fn)
            stop = _graph_break(event.payload, callers, at)
            place = at.filename, stop.line, at.colno, stop.reason
            places[place] = stop if stop.skipped else places.get(place, stop)
    return tuple(places.values())


def _frames_of(stack: Sequence[FrameSummary], fn: Any) -> list[FrameSummary]:
    """Return the frames from the call of *fn* to the line that breaks.

    What only passes a call on, such as a decorator of torch, is left out, and so is
    Python's own library.  Where nothing else is left, *fn* itself cannot be entered,
    and its first line stands for the place.
    """
    found = [one for one in _called(stack) if not frames.is_plumbing(one.filename)]
    fn = getattr(fn, "forward", fn)
    code = getattr(getattr(fn, "_torchdynamo_orig_callable", fn), "__code__", None)
    if code and not found:
        return [FrameSummary(code.co_filename, code.co_firstlineno, code.co_name)]
    return found or [stack[-1]]


def _called(stack: Sequence[FrameSummary]) -> Sequence[FrameSummary]:
    """Return the frames below those of the helpers, which make the call."""
    callers = [i for i, f in enumerate(stack) if f.filename.startswith(_HELPERS)]
    return stack[callers[-1] + 1 :] if callers else stack


_HELPERS = __file__.removesuffix("capture.py")


def _graph_break(
    payload: str, callers: Sequence[FrameSummary], at: FrameSummary
) -> GraphBreak:
    """Read one graph break from torch's text and the frames that lead to it."""
    message = payload.partition("Graph Break Reason: ")[2] or payload
    message = message.partition("\n\nUser code traceback:")[0].strip()
    head, _, rest = message.partition("\n\n")
    title, hints, explanation = _sections(rest if head.endswith(":") else message)
    name = frames.file_name(at.filename)
    return GraphBreak(
        reason=title.rstrip("."),
        line=at.lineno or 0,
        source=code_of(at.line or ""),
        function=frames.original_name(at.name),
        file=name,
        fix="" if name.startswith(LIBRARY) else _advice(f"{title}: {explanation}", at),
        skipped="Skipping the function" in head,
        hints=hints,
        message=message,
        way=tuple(map(frames.line_of, callers)),
        explanation=explanation,
    )


_SECTION = re.compile(
    r"^\s*(Explanation|Hint|Developer debug context|For more details.*?visit):"
    r"|^Stack variable source attribution:",
    re.M,
)
_ANOTHER = "*** While handling this graph break, another"


def _sections(message: str) -> tuple[str, tuple[str, ...], str]:
    """Return the title, the hints and the explanation of the first message of torch."""
    title, *rest = _SECTION.split(message.partition(_ANOTHER)[0])
    sections = [
        (heading, re.sub(r"\n\s*", "\n    ", text.strip()))
        for heading, text in zip(rest[::2], rest[1::2], strict=True)
    ]
    hints = tuple(text for heading, text in sections if heading == "Hint")
    explanations = [text for heading, text in sections if heading == "Explanation"]
    return title.strip().split("\n")[0], hints, " ".join(explanations)


def _advice(reason: str, at: FrameSummary) -> str:
    """Return the fix for a break with this *reason* at this line, or ''."""
    line = code_of(at.line or "")
    if "Data-dependent branching" in reason:  # what replaces it depends on its body
        same_line = re.match(r".*?:\s+(.+)", line)
        next_line = linecache.getline(at.filename, (at.lineno or 0) + 1).strip()
        line += f"\n{same_line[1] if same_line else next_line}"
    # What follows is the same for every builtin, and names others as examples.
    text = f"{reason.partition(' This function is either')[0]}\n{line}"
    fixes = (row["fix"] for row in _WORDS["break"] if re.search(row["says"], text))
    return next(fixes, "")


# ------------------------------------------------------------ compiles in a block


class Watch:
    """What the compiler did inside a ``with`` block, to be read during and after.

    Reads torch's own history of compiles, so nothing is installed.  torch keeps
    the last 64; of more than that, 64 are counted.
    """

    def __enter__(self) -> Watch:
        self._known = list(_torch.compile_history)  # kept alive, for ids are compared
        self._counted_before = copy.deepcopy(_torch.counters)
        self._history, self._counters = _torch.compile_history, _torch.counters
        return self

    def __exit__(self, *exc: object) -> None:
        self._history = list(_torch.compile_history)
        self._counters = copy.deepcopy(_torch.counters)

    def _records(self) -> list[Any]:
        """Return torch's records of the compiles since the block began."""
        known = set(map(id, self._known))
        return [record for record in self._history if id(record) not in known]

    def _counted(self, group: str) -> dict[str, int]:
        """Return by how much torch's counters of a *group* grew in the block."""
        return dict(self._counters[group] - self._counted_before[group])

    def _compiles(self) -> list[Any]:
        records = self._records()
        return [r for r in records if not (r.is_runtime or _at_limit(r.fail_reason))]

    @property
    def compiles(self) -> int:
        """How many compiles so far; cheap enough to read between two blocks."""
        return len(self._compiles())

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it recompiled, each of torch's reasons once."""
        return tuple(dict.fromkeys(guard.test for guard in self.failed))

    @property
    def failed(self) -> tuple[Guard, ...]:
        """The guards that failed, each once, with the lines that they come from."""
        found = [_guard(r) for r in self._compiles() if r.recompile_reason]
        return tuple(dict.fromkeys(found))

    @property
    def graphs(self) -> int:
        """How many graphs were captured: 0 means that nothing was."""
        return self._counted("stats").get("unique_graphs", 0)

    @property
    def graph_breaks(self) -> int:
        """How many kinds of graph break were seen; graphs() shows each of them."""
        kinds = {**self._counted("graph_break"), **self._counted("unimplemented")}
        return sum(not _at_limit(kind) for kind in kinds)

    @property
    def limit_hit(self) -> bool:
        """Whether the recompile limit was hit: new inputs run eagerly since."""
        return any(_at_limit(record.fail_reason) for record in self._records())

    @property
    def ignored(self) -> tuple[str, ...]:
        """Why CUDA graphs that the mode asked for were not used, if so."""
        reasons = [record.cudagraph_skip_reason for record in self._records()]
        if not any(reasons) and self._counted("inductor").get("cudagraph_skips"):
            reasons = [_SKIPPED if torch.cuda.is_available() else _NO_GPU]
        return tuple(dict.fromkeys(filter(None, reasons)))


_NO_GPU = "CUDA graphs need tensors on an NVIDIA GPU"
_SKIPPED = "CUDA graphs were skipped: TORCH_LOGS=cudagraphs says why"


def _at_limit(text: str | None) -> bool:
    return bool(text) and "recompile limit exceeded" in text


def _short(reason: str | None) -> str:
    """Return a recompile reason on one line, without ids, paths and stack."""
    line = (reason or "").strip().split("\n")[0]
    line = re.sub(r"^\d+/\d+: |\s+#.*$|\s*\(HINT: .*$", "", line)
    return re.sub(r"\b\d{7,}\b", "…", line).strip()  # addresses


# ---------------------------------------------------------------------- recompiles


@dataclass(frozen=True)
class Guard:
    """A guard that failed: its *test* in torch's words, and the *place* behind it.

    *place* is the caller's line that needs what is tested, else the function that was
    compiled; *source* is that line alone.  *hint* is torch's advice, or ''.
    """

    test: str
    place: str
    source: str = ""
    hint: str = ""


_OF_RECORD = re.compile(r"Line: (\d+), Name: (.+), Filename: (.+)")
_OF_SIZE = re.compile(r"  # (\S+):(\d+) in (\S+) \(")  # its path is cut off at the left
_RESUMED = re.compile(r"___stack\d+")
_HINT = re.compile(r"\(HINT: (.*)\)|\. (Guard failed on a parameter.*)")


def _guard(record: Any) -> Guard:
    """Read the guard that a compile's *record* says has failed."""
    reason = record.recompile_reason
    test, hint = _short(reason), _HINT.search(reason.split("\nUser stack trace")[0])
    needs = frames.frames_in(reason)
    calls = [_OF_RECORD.match(line) for line in record.stack_trace or ()]
    calls = _called([FrameSummary(m[3], int(m[1]), m[2]) for m in calls if m])
    of_size = not _RESUMED.search(test) and _OF_SIZE.search(reason)
    if of_size and (files := [f for f, *_ in calls if f.endswith(of_size[1])]):
        needs = [FrameSummary(files[0], int(of_size[2]), of_size[3])]
    resumes = _RESUMED.match(test)  # what a graph break left, at the line that broke
    stacks = [calls] if resumes else [needs, calls]
    at = next(filter(None, map(frames.own_of, stacks)), None)
    hinted = next(filter(None, hint.groups()), "") if hint else ""
    inner = next(iter([*needs[-1:], *calls[-1:]]), None)
    if inner is None:
        return Guard(test, "", hint=hinted)
    at, file = at or inner, frames.file_name(inner.filename)
    inside = f", inside {file}" if at is not inner and file.startswith(LIBRARY) else ""
    return Guard(test, frames.line_of(at) + inside, code_of(at.line or ""), hinted)


@dataclass(frozen=True)
class Call:
    """What one call cost: compiles, why in words, and the guards as torch has them.

    *failed* are the same guards with the lines that they come from, and *graphs* is how
    many graphs were captured.
    """

    compiles: int
    reasons: tuple[str, ...]
    guards: tuple[str, ...]
    failed: tuple[Guard, ...] = ()
    graphs: int = 0


_IN_A_CELL = 2  # reasons; of more, each has a row


@dataclass(frozen=True, repr=False)
class Recompiles(TableResult):
    """What each call of a function cost in compiles, and why.

    *stopped* says what ended the count before the last call was done; '' if nothing.
    """

    calls: tuple[Call, ...]
    limit_hit: bool
    stopped: str = ""

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
        rows = list[tuple[Any, ...]]()
        for i, call in enumerate(self.calls, 1):
            few = len(call.reasons) <= _IN_A_CELL
            first, *more = ["; ".join(call.reasons)] if few else call.reasons
            rows += [(i, call.compiles, first), *(("", "", one) for one in more)]
        return Table.of(("call", "compiles", "why"), rows)

    def _last(self) -> str:
        calls, compiles = count(len(self.calls), "call"), count(self.total, "compile")
        limit = "; the recompile limit was hit: new inputs run eagerly from then on"
        stopped = f"\n{self.stopped}" if self.stopped else ""
        return f"{calls}, {compiles}{limit if self.limit_hit else ''}{stopped}"


def recompiles(
    fn: Callable[..., Any],
    calls: Sequence[Any],
    *,
    backend: str | Callable[..., Any] = "eager",
    dynamic: bool | None = None,
    budget: float = 300,
) -> Recompiles:
    """Return how many compiles each call of *fn* cost, and why.

    *calls* has the inputs of each call: a tuple, a dictionary of keyword arguments, or
    a pair of both.  A plain function is compiled apart from the session, with *backend*
    and *dynamic* as for ``torch.compile``.  A function that is compiled already is used
    as it is, with its cache, which the calls fill.  Source: torch's compile history.

    *budget* is in seconds; five minutes are more than a small model's sizes take, and
    less than a person waits.  When it is spent no further call begins.  Then, and on
    Ctrl-C, the calls so far come back, and say so.

    Raises InputError when a call raises, or *calls* holds something else.
    """
    session.check_callable(fn, ())
    pairs = each_call(calls)
    if _torch.is_compiled(fn):
        return _calls_of(fn, pairs, budget)
    with session.undisturbed(fn):
        apart = session.compile_apart(fn, backend=backend, dynamic=dynamic)
        return _calls_of(apart, pairs, budget)


def each_call(calls: Sequence[Any]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the positional inputs and the keyword arguments of each call."""
    pairs = []
    for call in calls if isinstance(calls, (list, tuple)) else ():
        if isinstance(call, Mapping):
            pairs.append(((), dict(call)))
        elif isinstance(call, tuple):
            is_pair = [*map(type, call)] == [tuple, dict]
            pairs.append(call if is_pair else (call, {}))
    if not pairs or len(pairs) < len(calls):
        raise InputError(
            "calls must be a list of tuples, the inputs of each call: "
            "recompiles(f, [(x,), (y,)]); of keyword arguments, dictionaries: "
            "recompiles(f, [{'x': x}, {'x': y}])"
        )
    return pairs


def given_calls(inputs: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the calls that are given with a model: one, or those of a list."""
    if isinstance(inputs, list):
        return each_call(inputs)
    return each_call([inputs if isinstance(inputs, (tuple, Mapping)) else (inputs,)])


def _calls_of(fn: Callable[..., Any], pairs: list[Any], budget: float) -> Recompiles:
    """Return what each of the calls in *pairs* cost, up to the *budget*."""
    watches: list[Watch] = []
    stopped, end = "", time.monotonic() + budget
    for inputs, kwargs in clone(pairs):  # at once: calls may share a cache that grows
        if watches and time.monotonic() > end:
            why = f"the budget of {budget:g} s was spent"
            stopped = f"stopped after call {len(watches)} of {len(pairs)}: {why}"
            break
        with Watch() as watch:
            watches.append(watch)
            try:
                session.call(partial(fn, *inputs, **kwargs), (), {})
            except KeyboardInterrupt:
                stopped = f"stopped in call {len(watches)} of {len(pairs)}: interrupted"
                break
    calls = []
    for watch in watches:
        failed, reasons = watch.failed, list[str]()
        for one in failed:  # a graph break leaves a function with guards of its own
            words = in_words(one.test, one.source)
            reasons.append(f"{words} ({one.place})" if words in reasons else words)
        reasons = reasons or ["first call"] * bool(watch.compiles)
        reasons += ["no graph, skipped"] * bool(watch.compiles and not watch.graphs)
        found = tuple(dict.fromkeys(reasons)), watch.reasons, failed, watch.graphs
        calls.append(Call(watch.compiles, *found))
    return Recompiles(tuple(calls), any(w.limit_hit for w in watches), stopped)


def named(guard: str, source: str) -> str:
    """Return the words of a *guard* with the names of the caller's code.

    What a graph break left has none: the *source* of its line stands for it.
    """
    words = re.sub(r"\b[GL]\['(\w+)'\]", r"\1", guard)
    return _RESUMED.sub(lambda _: f"the result of `{source}`", words)


def settings_in(guard: str) -> tuple[str, ...]:
    """Return the global settings that changed, where the *guard* is one of these."""
    _, changed, names = guard.partition("GLOBAL_STATE changed: ")
    return tuple(re.findall(r"\b(\w+)\b(?:\(\w+\)\w*)?", names)) if changed else ()


def in_words(guard: str, source: str = "") -> str:
    """Return the failed *guard* in words, or as it is when no words are known.

    Names are those of the caller's code (`named`).
    """
    guard = named(guard, source)
    if settings := settings_in(guard):
        guard = f"GLOBAL_STATE changed: {' and '.join(settings)}"
    for row in _WORDS["guard"]:
        if match := re.search(row["says"], guard):
            return row["words"].format(*match.groups())
    return guard
