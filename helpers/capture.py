"""What the compiler captured, where it stopped, and why it compiled again.

`graphs` shows the graphs and each graph break, `recompiles` what each call cost;
neither disturbs what is already compiled in the session.  `Watch` counts what the
compiler does in a block, and costs nothing while nothing compiles.

The answers are torch's own: graphs from a back end that keeps them, graph breaks from
the structured log and the exception behind each, compiles from torch's history of them.
"""

from __future__ import annotations

import ast
import copy
import html
import linecache
import re
import signal
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from traceback import FrameSummary
from typing import Any, NamedTuple

import torch

from helpers import _torch, session
from helpers.errors import InputError
from helpers.results import Result
from helpers.text import Table, count, pre

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
    torch's in one line; *explanation*, *hints* and *link* are the parts of *message*,
    which is all that torch says.  *fix* is what removes such a break, or '' where only
    torch's hints are known to be right.  *skipped*: the whole function runs eagerly.
    """

    reason: str
    line: int
    source: str
    function: str
    file: str
    fix: str
    skipped: bool = False
    explanation: str = ""
    hints: tuple[str, ...] = ()
    link: str = ""
    message: str = ""
    way: tuple[str, ...] = ()

    def __str__(self) -> str:
        after = ", so the whole function runs eagerly" if self.skipped else ""
        own = [line for line in self.way if " of site-packages/" not in line]
        called = self.file.startswith("site-packages/")
        return "\n".join(
            [
                f"line {self.line} of {self.file}, in {self.function}: {self.source}",
                *([f"  from: {own[-1]}"] if called and own else []),
                f"  why: {self.reason}{after}",
                *([f"  fix: {self.fix}"] if self.fix else []),
                *([f"  hint: {hint}" for hint in self.hints] if not self.fix else []),
            ]
        )

    __repr__ = __str__

    @property
    def whole(self) -> str:
        """All that is known: also the way to the line, and torch's message as it is."""
        way = [f"  through: {line}" for line in self.way]
        return "\n".join([str(self), *way, "", self.message])


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
        folds = [
            f"<details><summary>break {i} in torch's words: "
            f"{html.escape(stop.reason)}</summary>{pre(stop.whole)}</details>"
            for i, stop in enumerate(self.breaks, 1)
        ]
        return "".join([pre(self), *folds])


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
        captured.append(Graph(tuple(_op_names(graph))))
        return graph

    with session.undisturbed(fn), _torch.trace() as events:
        session.call(session.compile_apart(fn, backend=backend), inputs, kwargs)
    return Graphs(tuple(captured), _graph_breaks(events, fn))


def _op_names(graph: Any) -> list[str]:
    names = []
    for node in graph.graph.nodes:
        if node.op == "call_module":
            names.append(type(graph.get_submodule(node.target)).__name__)
        elif node.op in ("call_function", "call_method"):
            name = getattr(node.target, "__name__", str(node.target))
            names.append(name.split(".")[0].strip("_"))
    return names


def _graph_breaks(events: list[_torch.Event], fn: Any) -> tuple[GraphBreak, ...]:
    """Return the graph breaks among *events*, each place once.

    A function that is inlined and then compiled by itself, or traced again, reports the
    same place twice; two places may share a line, and differ in the column.
    """
    places: dict[Any, GraphBreak] = {}
    for event in events:
        if event.kind == "dynamo_graph_break_reason":
            frames = _frames_of(event.stack, fn)
            stop = _graph_break(event.payload, frames)
            column = getattr(frames[-1], "colno", None) if frames else None
            place = stop.file, stop.line, column, stop.reason
            places[place] = stop if stop.skipped else places.get(place, stop)
    return tuple(places.values())


def _frames_of(stack: Sequence[FrameSummary], fn: Any) -> list[FrameSummary]:
    """Return the frames from the call of *fn* to the line that breaks.

    What only passes a call on, such as a decorator of torch, is left out, and so is
    Python's own library.  Where nothing else is left, *fn* itself cannot be entered,
    and its first line stands for the place.
    """
    callers = [i for i, f in enumerate(stack) if f.filename.startswith(_HELPERS)]
    inner = stack[callers[-1] + 1 :] if callers else stack
    frames = [frame for frame in inner if not _is_plumbing(frame.filename)]
    fn = getattr(fn, "_torchdynamo_orig_callable", fn)
    code = getattr(getattr(fn, "forward", fn), "__code__", None)
    if frames or code is None:
        return frames or list(inner)
    return [FrameSummary(code.co_filename, code.co_firstlineno, code.co_name)]


_HELPERS = str(Path(__file__).parent)
_TORCH = Path(torch.__file__).parent
_PASSES_ON = ("_dynamo", "_compile.py", "utils/_contextlib.py", "nn/modules/module.py")
_PLUMBING = ("<frozen", *(str(_TORCH / part) for part in _PASSES_ON))
_PYTHON = sysconfig.get_path("stdlib")
_INSTALLED = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


def _is_plumbing(file: str) -> bool:
    python = file.startswith(_PYTHON) and not file.startswith(_INSTALLED)
    return python or file.startswith(_PLUMBING)


def _graph_break(payload: str, frames: Sequence[FrameSummary]) -> GraphBreak:
    """Read one graph break from torch's text and the frames that lead to it."""
    message = payload.partition("Graph Break Reason: ")[2] or payload
    message = message.partition("\n\nUser code traceback:")[0].strip()
    head, _, rest = message.partition("\n\n")
    skipped = "Skipping the function" in head
    said = _sections(rest if head.endswith(":") and rest else message)
    *callers, at = frames or [FrameSummary("?", 0, "?", line="")]
    title, explanation = said["title"][0], " ".join(said["explanation"])
    return GraphBreak(
        reason=title.rstrip("."),
        line=at.lineno or 0,
        source=at.line or "",
        function=original_name(at.name),
        file=_file_name(at.filename),
        fix=_advice(f"{title}: {explanation}", at),
        skipped=skipped,
        explanation=explanation,
        hints=tuple(said["hint"]),
        link=" ".join(said["link"]),
        message=message,
        way=tuple(
            f"line {frame.lineno} of {_file_name(frame.filename)}, "
            f"in {original_name(frame.name)}: {frame.line}"
            for frame in callers
        ),
    )


_SECTIONS = {
    "explanation": "Explanation: ",
    "hint": "Hint: ",
    "context": "Developer debug context: ",
    "link": "For more details about this graph break, please visit: ",
    "sources": "Stack variable source attribution:",
}
_ANOTHER = "*** While handling this graph break, another"


def _sections(message: str) -> dict[str, list[str]]:
    """Return torch's title, explanation, hints and link; of two messages, the first."""
    said: dict[str, list[str]] = {"title": [], **{name: [] for name in _SECTIONS}}
    section = "title"
    for line in message.partition(_ANOTHER)[0].split("\n"):
        text = line.strip()
        starts = (name for name, words in _SECTIONS.items() if text.startswith(words))
        if start := next(starts, None):
            section = start
            said[section].append(text.removeprefix(_SECTIONS[section]))
        elif text and (section == "title" or not said[section]):
            said[section].append(text)
        elif text:
            said[section][-1] += f"\n    {text}"
    return said


def _file_name(file: str) -> str:
    """Return a name that is the same on every machine."""
    if "ipykernel" in file or file.startswith("<ipython"):
        return "the cell"
    for folder in _INSTALLED:
        if file.startswith(folder):
            return f"site-packages/{PurePath(file).relative_to(folder).as_posix()}"
    return PurePath(file).name


def original_name(name: str) -> str:
    """Return the user's name of a function that resumes after a graph break."""
    return re.sub(r"^(torch_dynamo_resume_in_)+|(_at_\d+)+$", "", name)


_TENSOR = "keep the value a tensor: no .item(), .tolist(), float() or int()"
_LOG = "print, log or warn outside the compiled function"
_RANDOM = "draw with torch.rand, or pass the number in as a tensor"
_BEFORE = "do it before or after the call, and pass the result in"
_OUTSIDE = "compile the forward only, and ask for gradients outside"
# What removes a graph break: words of torch's reason, words of the source line, advice.
# The first row of which both occur counts.  It holds only what is right for all that
# torch says in these words; for the rest, torch's own hints are shown.
_ADVICE = (
    ("torch._dynamo.graph_break()", "", "remove the call that asks for the break"),
    ("Tensor.item()", "", _TENSOR),
    ("Tensor.tolist()", "", _TENSOR),
    ("aten._local_scalar_dense", "random.", _RANDOM),
    ("aten._local_scalar_dense", "", _TENSOR),
    ("aten.masked_select", "", "keep the shape fixed: torch.where(mask, x, 0)"),
    (
        "aten.nonzero",
        "[",
        "keep the shape fixed: torch.where(mask, x, 0) instead of x[mask]",
    ),
    (
        "torch.compiler.disable",
        "",
        "remove torch.compiler.disable, or call that function outside",
    ),
    ("requires_grad_()", "", _OUTSIDE),
    ("requires_grad=True", "", _OUTSIDE),
    (".backward()", "", _OUTSIDE),
    ("autograd.grad", "", _OUTSIDE),
    ("context manager", "", "move that with block out of the compiled function"),
    ("`print`", "", _LOG),
    ("logging.", "", _LOG),
    ("`_warnings.warn`", "", _LOG),
    ("Random.", "", _RANDOM),
    ("`time.", "", _BEFORE),
    ("`posix.", "", _BEFORE),
    ("method `now`", "datetime", _BEFORE),
    ("`open`", "", _BEFORE),
    ("`input`", "", _BEFORE),
)


def _advice(reason: str, at: FrameSummary) -> str:
    """Return what removes a break with this *reason* at this line, or ''."""
    # What follows is the same for every builtin, and names others as examples.
    reason = reason.partition(" This function is either")[0]
    if "Data-dependent branching" in reason:
        return _advice_for_branch(at)
    rows = [row for row in _ADVICE if row[0] in reason and row[1] in (at.line or "")]
    return rows[0][2] if rows else ""


def _advice_for_branch(at: FrameSummary) -> str:
    """Return advice where both sides of the branch at this line only compute.

    No torch.where replaces one that raises, prints, loops, or leaves a loop.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(at.filename)))
    except SyntaxError:
        return ""
    branches = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert))
        and node.lineno <= (at.lineno or 0) <= (node.test.end_lineno or 0)
    ]
    computes = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.If)
    for branch in branches:
        body = [*branch.body, *branch.orelse] if isinstance(branch, ast.If) else []
        if isinstance(branch, (ast.While, ast.Assert)) or not all(
            isinstance(statement, computes) for statement in body
        ):
            return ""
    where = "choose with torch.where, or torch.cond for two long branches"
    return where if branches else ""


# ------------------------------------------------------------ compiles in a block


class Compile(NamedTuple):
    """A compile: function, reason, and ``forward``, ``backward`` or ``skipped``."""

    name: str
    reason: str
    kind: str


class Watch:
    """What the compiler did inside a ``with`` block, to be read during and after.

    Reads torch's own history of compiles, so nothing is installed.  torch keeps
    the last 64; of more than that, 64 are counted.
    """

    def __enter__(self) -> Watch:
        self._before = _torch.compile_history()[-1:], copy.deepcopy(_torch.counters)
        self._after: tuple[list[Any], Any] | None = None
        return self

    def __exit__(self, *exc: object) -> None:
        self._after = _torch.compile_history(), copy.deepcopy(_torch.counters)

    def _records(self) -> list[Any]:
        """Return torch's records of the compiles since the block began."""
        history = self._after[0] if self._after else _torch.compile_history()
        last = next(iter(self._before[0]), None)
        known = [i for i, record in enumerate(history, 1) if record is last]
        return history[known[-1] :] if known else history

    def _counted(self, group: str) -> dict[str, int]:
        """Return by how much torch's counters of a *group* grew in the block."""
        now = (self._after[1] if self._after else _torch.counters)[group]
        before = self._before[1][group]
        return {k: n - before[k] for k, n in now.items() if n > before[k]}

    @property
    def events(self) -> tuple[Compile, ...]:
        """The compiles so far, each with torch's reason ('' for a first one)."""
        return tuple(
            Compile(
                original_name(record.co_name or ""),
                _short(record.recompile_reason),
                _kind(record),
            )
            for record in self._records()
            if not record.is_runtime and not _at_limit(record.fail_reason)
        )

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
        return self._counted("stats").get("unique_graphs", 0)

    @property
    def break_reasons(self) -> tuple[str, ...]:
        """The first line of the reason of each kind of graph break."""
        texts = {**self._counted("graph_break"), **self._counted("unimplemented")}
        return tuple(text.split("\n")[0] for text in texts if not _at_limit(text))

    @property
    def graph_breaks(self) -> int:
        """How many kinds of graph break were seen; graphs() shows each of them."""
        return len(self.break_reasons)

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

    @property
    def recordings(self) -> int:
        """How many CUDA graphs were recorded."""
        return sum(bool(r.runtime_cudagraphify_time_us) for r in self._records())


_NO_GPU = "CUDA graphs need tensors on an NVIDIA GPU"
_SKIPPED = "CUDA graphs were skipped: TORCH_LOGS=cudagraphs says why"


def _kind(record: Any) -> str:
    if record.fail_type:
        return "skipped"
    return "backward" if record.is_forward is False else "forward"


def _at_limit(text: str | None) -> bool:
    return bool(text) and "recompile limit exceeded" in text


def _short(reason: str | None) -> str:
    """Return a recompile reason on one line, without ids, paths and stack."""
    line = (reason or "").strip().split("\n")[0]
    line = re.sub(r"^\d+/\d+: |\s+#.*$|\s*\(HINT: .*$", "", line)
    return re.sub(r"\b\d{7,}\b", "…", line).strip()  # addresses


# ---------------------------------------------------------------------- recompiles


@dataclass(frozen=True)
class Call:
    """What one call cost: compiles, why in words, and the guards as torch has them."""

    compiles: int
    reasons: tuple[str, ...]
    guards: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Recompiles(Result):
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
        rows = [
            (i, call.compiles, "; ".join(call.reasons))
            for i, call in enumerate(self.calls, 1)
        ]
        return Table.of(("call", "compiles", "why"), rows)

    def __str__(self) -> str:
        return f"{self.table()}\n{self._last()}"

    def _last(self) -> str:
        calls, compiles = count(len(self.calls), "call"), count(self.total, "compile")
        limit = "; the recompile limit was hit: new inputs run eagerly from then on"
        stopped = f"\n{self.stopped}" if self.stopped else ""
        return f"{calls}, {compiles}{limit if self.limit_hit else ''}{stopped}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + pre(self._last())


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
    as it is: its cache counts, and the calls fill it.  Source: torch's history of
    compiles.

    *budget* is in seconds.  A detector may compile hundreds of times for each size;
    five minutes are more than a small model's sizes take, and less than a reader
    waits.  When it is spent, or on Ctrl-C, what was found comes back, and says so.

    Raises InputError when a call raises, or *calls* holds something else.
    """
    session.check_callable(fn, ())
    pairs = _pairs(calls)
    if _torch.is_compiled(fn):
        return _count(fn, pairs, budget)
    with session.undisturbed(fn):
        apart = session.compile_apart(fn, backend=backend, dynamic=dynamic)
        return _count(apart, pairs, budget)


def _pairs(calls: Sequence[Any]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the positional inputs and the keyword arguments of each call."""
    pairs = []
    for call in calls if isinstance(calls, (list, tuple)) else ():
        if isinstance(call, Mapping):
            pairs.append(((), dict(call)))
        elif isinstance(call, tuple) and [*map(type, call)] == [tuple, dict]:
            pairs.append(call)
        elif isinstance(call, tuple):
            pairs.append((call, {}))
    if not pairs or len(pairs) < len(calls):
        raise InputError(
            "calls must be a list of tuples, the inputs of each call: "
            "recompiles(f, [(x,), (y,)]); of keyword arguments, dictionaries: "
            "recompiles(f, [{'x': x}, {'x': y}])"
        )
    return pairs


def _count(fn: Callable[..., Any], pairs: list[Any], budget: float) -> Recompiles:
    watches: list[Watch] = []
    stopped = ""
    try:
        with _interrupted_after(budget) as spent:
            for inputs, kwargs in pairs:
                with Watch() as watch:
                    watches.append(watch)
                    session.call(fn, inputs, kwargs)
    except KeyboardInterrupt:
        why = f"the budget of {budget:g} s was spent" if spent else "interrupted"
        stopped = f"stopped in call {len(watches)} of {len(pairs)}: {why}"
    calls = tuple(map(_cost, watches))
    return Recompiles(calls, any(watch.limit_hit for watch in watches), stopped)


def _cost(watch: Watch) -> Call:
    reasons = tuple(dict.fromkeys(map(_in_words, watch.reasons)))
    first = ("first call",) if watch.compiles and not reasons else ()
    return Call(watch.compiles, reasons or first, watch.reasons)


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[list[bool]]:
    """Interrupt the block as Ctrl-C does after *seconds*; the list then holds True.

    Only Python's main thread can be interrupted: in another, the block runs on.
    """
    spent: list[bool] = []
    lock, running = threading.Lock(), True

    def interrupt() -> None:
        with lock:
            if running:
                spent.append(True)
                signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    if threading.current_thread() is threading.main_thread():
        timer.start()
    try:
        yield spent
    finally:
        with lock:
            running = False
        timer.cancel()


# What torch says of a failed guard, and how it is put here.
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


def _in_words(guard: str) -> str:
    """Return the failed *guard* in words, or as it is when no words are known."""
    for pattern, words in _WORDS:
        if match := re.search(pattern, guard):
            return words.format(*match.groups())
    return guard
