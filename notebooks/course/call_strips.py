"""Calls of a compiled function in turn: which version served each."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch

from course.backend import CountingBackend

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


@contextmanager
def first_lines(many: int) -> Iterator[None]:
    """Print the first lines of what is printed inside, as ``| head`` does."""
    with redirect_stdout(io.StringIO()) as said:
        yield
    print("".join(said.getvalue().splitlines(keepends=True)[:many]), end="")
