"""Graph breaks: where they leave graphs, where none, and what removes them."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch

from course.ch05.zoo import ZOO, Snippet
from course.drawing import BLUE, Look, Piece, bars
from helpers import graphs
from helpers.capture import Graphs
from helpers.plots import COLOURS, Picture, styled
from helpers.text import Table, progress

Function = Callable[..., Any]


def quietly(fn: Function, *inputs: Any) -> Graphs:
    """Return graphs(fn, *inputs), and let fn print nothing."""
    with contextlib.redirect_stdout(io.StringIO()):
        return graphs(fn, *inputs)


@contextlib.contextmanager
def untimed_guards() -> Iterator[None]:
    """Let torch not time the guards of what is compiled in the block.

    It does so once for each graph, and empties the processor's caches for it,
    which takes longer than most of the compiles here.
    """
    timer = "torch._dynamo.guards.profile_guard_manager"
    with mock.patch(timer, return_value=0.0, create=True):
        yield


# ------------------------------------------- a break inside a block of Python


@contextlib.contextmanager
def yours() -> Iterator[None]:
    """Yield, and do nothing else."""
    yield


def in_no_grad(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        x = x.sin()
        print("here")
        return x.cos()


def in_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu"):
        x = x.sin()
        print("here")
        return x.cos()


def in_yours(x: torch.Tensor) -> torch.Tensor:
    with yours():
        x = x.sin()
        print("here")
        return x.cos()


def in_try(x: torch.Tensor) -> torch.Tensor:
    try:
        x = x.sin()
        print("here")
        return x.cos()
    finally:
        pass


def in_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x.sin()
        print("here")
    return x


def in_if(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 1:
        x = x.sin()
        print("here")
    return x.cos()


BLOCKS = {
    "if, on a shape": in_if,
    "with torch.no_grad()": in_no_grad,
    "with torch.autocast(...)": in_autocast,
    "with a context manager of yours": in_yours,
    "try": in_try,
    "for": in_loop,
}

# ----------------------------------------------------------------- the zoo


class Seen(NamedTuple):
    """What was counted for a snippet of the zoo.

    *after* is the number of graphs of the repaired function, None if the
    snippet has none.  *agrees*: it returns, prints and raises as given.
    *gradients* are "same", "other", "new" (given has none), or "lost".
    """

    snippet: Snippet
    before: Graphs
    after: int | None
    agrees: bool
    gradients: str


def visit() -> list[Seen]:
    """Count graphs and breaks of each snippet, and check the repaired ones."""
    seen = []
    with progress("snippets", len(ZOO)) as bar, untimed_guards():
        for snippet in ZOO:
            before = quietly(snippet.given, *snippet.inputs[0])
            after, agrees, gradients = None, True, "same"
            if snippet.repaired:
                with torch.compiler.config.patch(snippet.settings):
                    after, agrees = _checked(snippet)
                gradients = _gradients(snippet)
            seen.append(Seen(snippet, before, after, agrees, gradients))
            bar.update()
    return seen


def _checked(snippet: Snippet) -> tuple[int, bool]:
    """Compile what is repaired; return its graphs, and whether it acts as given.

    That is: returns the same, prints the same, and raises where given raises, in
    eager.  Both get each of the inputs, in copies.  A graph break raises, so a
    function with one does not act as given.
    """
    captured: list[Any] = []
    compiled = torch.compile(
        snippet.repaired,
        backend=lambda graph, _: captured.append(graph) or graph.forward,
    )
    with torch._dynamo.error_on_graph_break(True):
        agree = [
            _same(_run(snippet.given, inputs), _run(compiled, inputs))
            for inputs in snippet.inputs
        ]
    return len(captured), all(agree)


Outcome = tuple[torch.Tensor | None, str]


def _same(wanted: Outcome, found: Outcome) -> bool:
    (a, said), (b, also) = wanted, found
    if a is None or b is None or said != also:
        return a is b and said == also
    return a.shape == b.shape and torch.allclose(a, b, equal_nan=True)


@contextlib.contextmanager
def _heard() -> Iterator[io.StringIO]:
    """Collect what is printed in the block; warnings are dropped."""
    with contextlib.redirect_stdout(io.StringIO()) as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield text


def _run(f: Function, inputs: tuple[Any, ...]) -> Outcome:
    """Return what f returns (None: it raises), and what it prints."""
    with _heard() as text:
        try:
            return f(*copy.deepcopy(inputs)), text.getvalue()
        except (ValueError, AssertionError, RuntimeError):
            return None, text.getvalue()


def _gradients(snippet: Snippet) -> str:
    """Say how the gradients of repaired are to those of given, in eager."""
    kinds = set()
    for inputs in snippet.inputs:
        before = _slopes(snippet.given, inputs)
        after = _slopes(snippet.repaired, inputs)
        if before is None or after is None:
            kinds.add("same" if before is after else "lost" if before else "new")
        else:
            near = map(torch.allclose, before, after)
            kinds.add("same" if all(near) else "other")
    return min(kinds, key=["lost", "other", "new", "same"].index)


def _slopes(f: Function, inputs: tuple[Any, ...]) -> tuple[torch.Tensor, ...] | None:
    """Return the gradient of each input of floats; None: nothing comes back."""
    copies = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    leaves = [x for x in copies if x.requires_grad]
    try:
        with _heard():
            out = f(*copies)
        return torch.autograd.grad(out.sum(), leaves)
    except (ValueError, AssertionError, RuntimeError):
        return None


def tables(seen: list[Seen]) -> list[Table]:
    """Return a table of the lines that break, for each group of the zoo."""
    found = []
    for group in dict.fromkeys(one.snippet.group for one in seen):
        rows = [
            [
                s.snippet.name,
                s.before.count,
                len(s.before.breaks),
                s.snippet.tool,
                "" if s.gradients == "same" else s.gradients,
            ]
            for s in seen
            if s.snippet.group == group and s.before.breaks
        ]
        if rows:
            headings = ["line", "graphs", "breaks", "what removes it", "gradients"]
            found.append(Table.of(headings, rows, title=group))
    return found


# --------------------------------------------------------------- a picture

_LOOKS = {
    "graph": BLUE,
    "Python": Look("white", ink="#222222", edge=COLOURS[1], line=2),
}


def _parts(found: Graphs) -> list[tuple[str, bool]]:
    """Return graphs, and the Python between: a text, and whether compiled."""
    if not found.count:
        return [("all of it in Python", False)]
    parts: list[tuple[str, bool]] = []
    gaps = found.count - 1
    for number, graph in enumerate(found.graphs):
        few = len(graph.ops) < 4
        ops = graph.ops if few else (graph.ops[0], "…", graph.ops[-1])
        parts.append(("\n".join(ops), True))
        if number < gaps:
            middle = number == (gaps - 1) // 2
            line = found.breaks[0].source if middle and found.breaks else ""
            parts.append((line.rstrip(":"), False))
    return parts


@styled
def strips(seen: dict[str, Graphs]) -> Picture:
    """Draw each result as a strip: graphs, and Python between them."""
    rows, words = {}, []
    for name, found in seen.items():
        parts = _parts(found)
        ops = iter([len(graph.ops) for graph in found.graphs])
        rows[name] = [
            Piece("graph", _width(text, next(ops)), text)
            if compiled
            else Piece("Python", _width(text, 0), text)
            for text, compiled in parts
        ]
        words.append(f"{name}: {', '.join(_said(parts))}")
    picture = bars(
        {name: _scaled(pieces) for name, pieces in rows.items()},
        _LOOKS,
        unit="",
        title="what becomes a graph, and what stays in Python",
        alt=". ".join(words) + ".",
        size=(11, 1.25 * len(seen) + 0.6),
    )
    [axes] = picture.figure.axes
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return picture


def _scaled(pieces: list[Piece]) -> list[Piece]:
    """Return pieces with a gap between them, together not longer than 9."""
    scale = 9 / max(9.0, sum(piece.length for piece in pieces))
    ends = [0.0, *itertools.accumulate(piece.length * scale for piece in pieces)]
    return [
        piece._replace(length=end - start - 0.06, start=start)
        for piece, (start, end) in zip(pieces, itertools.pairwise(ends), strict=True)
    ]


def _said(parts: list[tuple[str, bool]]) -> Iterator[str]:
    """Yield each part in words; what has none is a call, or the way back."""
    for number, (text, compiled) in enumerate(parts):
        unnamed = "call" if number < len(parts) / 2 else "return"
        kind = "graph" if compiled else "Python"
        yield f"{kind}: " + (text.replace("\n", " ") or unnamed)


def _width(text: str, ops: int) -> float:
    """Return how wide a graph with *ops* is drawn, or, with none, Python."""
    return max(1.4, 0.6 * ops) if ops else 2.8 if text else 0.5
