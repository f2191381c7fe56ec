"""What a model compiles inside: its blocks, one by one, or in each call anew.

Models of several libraries do so.  The rest of the check-up takes that off: here it is
looked at as it is, with a back end that only runs what Dynamo captures.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

from .cures import Compiling
from .helpers import correctness, text
from .helpers.capture import Recompiles, compiles_of, line_in
from .helpers.session import undisturbed
from .patient import Patient


def blocks(p: Patient) -> tuple[str, ...]:
    """Return the names of the parts of a model that are compiled one by one."""
    model = p.as_given()
    modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    return tuple(name for name, one in modules if name and one._compiled_call_impl)


def compiling(p: Patient) -> Compiling:
    """Return what compiles each block of the model anew, with options."""
    names = blocks(p)

    def compiled(**options: Any) -> Callable[..., Any]:
        model = p.as_given()
        for name in names:
            model.get_submodule(name).compile(**options)
        return model

    return compiled


def seen(p: Patient, rounds: int) -> Recompiles:
    """Return what all calls compile, in turn, as the blocks are compiled now."""
    torch.compiler.reset()  # a part before may have left their code at its limit
    calls = list(itertools.chain.from_iterable(p.calls for _ in range(rounds)))
    with undisturbed(p.fn):
        return compiles_of(compiling(p)(backend="eager"), calls, p.order["timeout"] / 2)


def told(p: Patient, names: tuple[str, ...], found: Recompiles) -> str:
    """Return in words how many versions the blocks have, and which run eagerly."""
    said = (
        f"{text.count(len(names), 'block')} compiled one by one: "
        f"{text.count(found.total, 'version')}"
    )
    if found.limit_hit and (eager := _eager(p, names)):
        said += f", and {', '.join(eager)} run eagerly"
    return said


def _eager(p: Patient, names: tuple[str, ...]) -> list[str]:
    """Return the blocks that run without a graph in a call after the first ones."""
    ran, now = set[str](), [""]

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            ran.add(now[0])
            return graph(*inputs)

        return run

    def named(name: str, block: torch.nn.Module) -> Callable[..., Any]:
        compiled = block._compiled_call_impl

        def call(*inputs: Any, **kwargs: Any) -> Any:
            now[0] = name
            return compiled(*inputs, **kwargs)

        return call

    with undisturbed(p.fn), correctness.seeded(0):
        model = compiling(p)(backend=backend)
        for name in names:
            block = model.get_submodule(name)
            block._compiled_call_impl = named(name, block)
        for inputs, kwargs in p.calls:
            ran.clear()
            model(*inputs, **kwargs)
    return [name for name in names if name not in ran]


def compiles(p: Patient) -> tuple[str, ...]:
    """Return the lines that call ``torch.compile`` inside the model, and what to do."""
    lines, ours = dict[str, None](), len(traceback.extract_stack())

    def noted(fn: Any = None, **_: Any) -> Any:
        lines[line_in("".join(traceback.format_stack()[ours:-1]))] = None
        return fn if fn is not None else lambda fn: fn

    inputs, kwargs = p.calls[0]
    with undisturbed(p.fn), correctness.seeded(0):
        torch.compiler.set_stance("force_eager")  # what is compiled already
        model = p.as_given()
        with mock.patch.object(torch, "compile", noted):
            model(*inputs, **kwargs)
    return tuple(
        f"torch.compile is called in each call ({line}): untried: compile once, where "
        "the model is made"
        for line in lines
    )
