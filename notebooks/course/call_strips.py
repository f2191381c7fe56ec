"""Calls of a compiled function in turn: which version served each."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch

from course.backend import CountingBackend
from course.drawing import BLUE, EMPTY, VERMILION, grid
from helpers.plots import Picture

EAGER = "eager"


class Calls:
    """A function compiled apart, which notes what each call cost and ran.

    Its backend numbers the graphs and runs them as captured, so no kernel is
    built.  ``made`` holds the new graphs of each call, ``ran`` the number of
    the graph that ran first, or "eager" where none did.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        backend: CountingBackend | None = None,
        **options: Any,
    ) -> None:
        self.keep = backend or CountingBackend()  # for code that compiles by itself
        self.graphs: list[torch.fx.GraphModule] = self.keep.captured
        self.made: list[int] = []
        self.ran: list[int | str] = []
        torch.compiler.reset()
        self._compiled = torch.compile(function, backend=self.keep, **options)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        self.keep.ran.clear()
        before = len(self.graphs)
        result = self._compiled(*inputs, **named)
        self.made.append(len(self.graphs) - before)
        self.ran.append(self.keep.ran[0] if self.keep.ran else EAGER)
        return result

    @property
    def operations(self) -> list[int]:
        """How many operations each of the graphs has."""
        return [
            sum(node.op.startswith("call") for node in graph.graph.nodes)
            for graph in self.graphs
        ]


@contextmanager
def first_lines(many: int) -> Iterator[None]:
    """Print the first lines of what is printed inside, as ``| head`` does."""
    with redirect_stdout(io.StringIO()) as said:
        yield
    print("".join(said.getvalue().splitlines(keepends=True)[:many]), end="")


def strips_picture(strips: Mapping[str, Calls], unit: str) -> Picture:
    """Return a row for each strip, with a box for each call."""
    picture = grid(
        {
            name: {f"{call}": kind for call, kind in enumerate(kinds(calls), 1)}
            for name, calls in strips.items()
        },
        {"compiles": VERMILION, "runs what is there": BLUE, "runs eagerly": EMPTY},
        alt=" ".join(f"{name}: {in_words(calls)}." for name, calls in strips.items()),
        legend="outside lower left",
        title="which calls compile",
    )
    [axes] = picture.figure.axes
    axes.set_xlabel(unit)
    axes.xaxis.set_label_position("top")
    return picture


def kinds(calls: Calls) -> list[str]:
    """Return what each call did, in the words of the picture."""
    return [
        "compiles" if made else "runs eagerly" if ran == EAGER else "runs what is there"
        for made, ran in zip(calls.made, calls.ran, strict=True)
    ]


def in_words(calls: Calls) -> str:
    """Return the strip as text: ``calls 1 to 8 compile``, and so on."""
    parts, start = [], 1
    for kind, run in itertools.groupby(kinds(calls)):
        end = start + len(list(run)) - 1
        which = f"call {start}" if start == end else f"calls {start} to {end}"
        said = kind if start == end else kind.replace("runs", "run", 1)
        said = "compile" if said == "compiles" and start != end else said
        parts.append(f"{which} {said}")
        start = end + 1
    return ", ".join(parts)
