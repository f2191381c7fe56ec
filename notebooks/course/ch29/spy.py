"""Who calls torch.compile, on what, and which calls run what it made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

from course.backend import CountingBackend
from course.words import silence
from helpers.text import Table

_TORCH = Path(torch.__file__).parent
_INSTALLED = _TORCH.parent
_WORK = ("backend", "mode", "options")  # what says how a graph is made into kernels


class Caller(NamedTuple):
    """One call of torch.compile: from where, on what, and with which options."""

    place: str
    target: str
    options: dict[str, Any]


class Counted(NamedTuple):
    """What happened during a call: graphs that were captured, graphs that ran."""

    captured: int
    ran: int


class Spy:
    """Stands in for torch.compile, notes each call, and lets torch do it.

    The graphs go to the counting backend in place of the one that was asked for, so
    nothing is made into kernels.  torch forgets earlier compiles on entry.
    """

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.backend = CountingBackend()

    def __enter__(self) -> Spy:
        torch.compiler.reset()
        self._compile = torch.compile
        torch.compile = self._noted
        return self

    def __exit__(self, *error: object) -> None:
        torch.compile = self._compile

    def _noted(self, model: Any = None, **options: Any) -> Any:
        asked = {key: value for key, value in options.items() if value is not None}
        place = _place(sys._getframe(1))
        self.callers.append(Caller(place, _target(model), asked))
        kept = {key: value for key, value in asked.items() if key not in _WORK}
        return self._compile(model, backend=self.backend, **kept)

    def during(self, call: Callable[..., Any], *inputs: Any, **others: Any) -> Counted:
        """Call it, with what it prints kept off the page; return what was counted."""
        captured, ran = len(self.backend.captured), len(self.backend.ran)
        with silence():
            call(*inputs, **others)
        made, runs = len(self.backend.captured), len(self.backend.ran)
        return Counted(made - captured, runs - ran)

    def table(self) -> Table:
        """Return who called torch.compile, on what, and what was asked for."""
        rows = []
        for caller in self.callers:
            asked = ", ".join(
                f"{key}={value!r}" for key, value in caller.options.items()
            )
            rows.append((caller.place, caller.target, asked or "-"))
        return Table.of(["torch.compile was called in", "on", "with"], rows)


def _place(frame: FrameType | None) -> str:
    """Return the first function outside torch, with its file in site-packages."""
    while frame and Path(frame.f_code.co_filename).is_relative_to(_TORCH):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    if path.is_relative_to(_INSTALLED):
        return f"{path.relative_to(_INSTALLED).as_posix()}, {frame.f_code.co_name}"
    return "this page"


def _target(model: Any) -> str:
    """Return a name for what is compiled: a class, or a method of one."""
    if isinstance(model, nn.Module):
        return type(model).__name__
    owner = getattr(model, "__self__", None)
    if owner is not None:
        return f"{type(owner).__name__}.{model.__name__}"
    return getattr(model, "__qualname__", "a decorator")


def both_ways(
    model: nn.Module, call: dict[str, Any], limit: int = 8
) -> tuple[int, int, torch.Tensor, torch.Tensor]:
    """Compile *model* in place, and call it: *limit* is its recompile limit.

    Return how many graphs were captured, how many run in a second call, and the
    samples of eager and of compiled code.
    """
    allowed = torch._dynamo.config.patch(recompile_limit=limit)
    with allowed, Spy() as spy, torch.no_grad():
        eager = model(**call).sample
        model.compile()
        spy.during(model, **call)
        ran = spy.during(model, **call).ran
        made = len(spy.backend.captured)
        return made, ran, eager, model(**call).sample
