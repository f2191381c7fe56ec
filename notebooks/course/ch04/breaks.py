"""Graph breaks: where they leave graphs, where none, and what removes them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch

from course.ch04.zoo import ZOO, Snippet
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
    snippet has none.
    """

    snippet: Snippet
    before: Graphs
    after: int | None
    agrees: bool


def visit() -> list[Seen]:
    """Count graphs and breaks of each snippet, and check the repaired ones."""
    seen = []
    with progress("snippets", len(ZOO)) as bar, untimed_guards():
        for snippet in ZOO:
            before = quietly(snippet.given, *snippet.inputs[0])
            after, agrees = None, True
            if snippet.repaired:
                with torch.compiler.config.patch(snippet.settings):
                    after, agrees = snippet.checked()
            seen.append(Seen(snippet, before, after, agrees))
            bar.update()
    return seen


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
            ]
            for s in seen
            if s.snippet.group == group and s.before.breaks
        ]
        if rows:
            headings = ["line", "graphs", "breaks", "what removes it"]
            found.append(Table.of(headings, rows, title=group))
    return found


# --------------------------------------------------------------- a picture


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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.25 * len(seen) + 0.3), layout="constrained")
    axes = figure.subplots()
    axes.axis("off")
    words = []
    for row, (name, found) in enumerate(seen.items()):
        parts = _parts(found)
        ops = iter([len(graph.ops) for graph in found.graphs])
        wide = [_width(text, next(ops) if compiled else 0) for text, compiled in parts]
        at = 0.0
        scale = 9 / max(9.0, sum(wide))
        axes.text(-0.15, -row, name, ha="right", va="center")
        for (text, compiled), width in zip(parts, wide, strict=True):
            width *= scale
            _part(axes, at, -row, width, text, compiled)
            at += width
        words.append(f"{name}: {', '.join(_said(parts))}")
    axes.set(xlim=(-3.2, 9.2), ylim=(-len(seen) + 0.45, 0.55))
    return Picture(figure, ". ".join(words) + ".")


def _said(parts: list[tuple[str, bool]]) -> Iterator[str]:
    """Yield each part in words; what has none is a call, or the way back."""
    for number, (text, compiled) in enumerate(parts):
        unnamed = "call" if number < len(parts) / 2 else "return"
        kind = "graph" if compiled else "Python"
        yield f"{kind}: " + (text.replace("\n", " ") or unnamed)


def _width(text: str, ops: int) -> float:
    """Return how wide a graph with *ops* is drawn, or, with none, Python."""
    return max(1.4, 0.6 * ops) if ops else 2.8 if text else 0.5


def _part(
    axes: Any, x: float, y: float, width: float, text: str, compiled: bool
) -> None:
    from matplotlib.patches import Rectangle

    face = COLOURS[0] if compiled else "white"
    edge = COLOURS[0] if compiled else COLOURS[1]
    axes.add_patch(
        Rectangle(
            (x + 0.04, y - 0.4),
            width - 0.08,
            0.8,
            facecolor=face,
            edgecolor=edge,
            linestyle="-" if compiled else "--",
            linewidth=1.5,
        )
    )
    ink = "white" if compiled else "#222222"
    axes.text(
        x + width / 2,
        y,
        text,
        ha="center",
        va="center",
        color=ink,
        fontsize=12,
    )
