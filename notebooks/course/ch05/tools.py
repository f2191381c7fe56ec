"""Tools for a graph break in a line that is not yours to edit.

Each tool has a function that breaks, and how the tool is put to work.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import io
import json
import logging
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import default_collate

from course.ch05.breaks import quietly, untimed_guards
from helpers.text import Table

Function = Callable[[torch.Tensor], torch.Tensor]

# ------------------------------------------------- functions that break


log = logging.getLogger("course.service")


def logs(x: torch.Tensor) -> torch.Tensor:
    h = x.sin()
    log.info("halfway")
    return h.cos()


def prints(x: torch.Tensor) -> torch.Tensor:
    h = x.sin()
    print("mean", h.mean())
    return h.cos()


def buckets(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * bisect.bisect([2, 4, 16], len(x))


def pickled(x: torch.Tensor) -> torch.Tensor:
    return x * len(pickle.dumps(7))


def packs(x: torch.Tensor) -> torch.Tensor:
    return pickled(x.sin()).cos()


def settings() -> float:
    return json.loads('{"gain": 2.0}')["gain"]


def configured(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * settings()


def collates(x: torch.Tensor) -> torch.Tensor:
    return default_collate([x.sin(), x.cos()]).sum(0)


WEIGHT = torch.tensor(2.0, requires_grad=True)


def steps(x: torch.Tensor) -> torch.Tensor:
    loss = (x * WEIGHT).square().sum()
    return WEIGHT - torch.autograd.grad(loss, WEIGHT)[0]


def reads_item(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x.sum().item()


# ------------------------------------------------------------ the tools


class Tool(NamedTuple):
    """A tool, the function that breaks without it, and its use.

    *use* gives the function to compile and the settings to compile it under.
    """

    name: str
    does: str
    what: str
    function: Function
    use: Callable[[Function], tuple[Function, dict[str, Any]]]


def _setting(**values: Any) -> Callable[[Function], Any]:
    return lambda function: (function, values)


@functools.cache  # torch takes a substitute once
def _with_python_version(
    function: Function,
) -> tuple[Function, dict[str, Any]]:
    @torch.compiler.substitute_in_graph(bisect.bisect)
    def in_python(a, x, lo=0, hi=None, *, key=None):
        return sum(border <= x for border in a)

    return function, {}


def _put_in(decorator: Callable[[Any], Any]) -> Callable[[Function], Any]:
    """Use the decorator on pickled, and call that instead."""

    def use(_: Function) -> tuple[Function, dict[str, Any]]:
        wrapped = decorator(lambda x: pickled(x))
        return (lambda x: wrapped(x.sin()).cos()), {}

    return use


def _constant(_: Function) -> tuple[Function, dict[str, Any]]:
    kept = torch.compiler.assume_constant_result(lambda: settings())
    return (lambda x: x.sin() * kept()), {}


def _traced(function: Function) -> tuple[Function, dict[str, Any]]:
    return torch._dynamo.dont_skip_tracing(function), {}


TOOLS = (
    Tool(
        "reorderable_logging_functions",
        "moves the call behind the graph",
        "print",
        prints,
        _setting(reorderable_logging_functions={print}),
    ),
    Tool(
        "ignore_logging_functions",
        "drops the call",
        "log.info",
        logs,
        _setting(ignore_logging_functions={log.info}),
    ),
    Tool(
        "capture_scalar_outputs",
        "puts .item() into the graph",
        "x.sum().item()",
        reads_item,
        _setting(capture_scalar_outputs=True),
    ),
    Tool(
        "trace_autograd_ops",
        "puts autograd.grad into the graph",
        "torch.autograd.grad",
        steps,
        _setting(trace_autograd_ops=True),
    ),
    Tool(
        "dont_skip_tracing",
        "traces into what Dynamo leaves alone",
        "default_collate, of torch",
        collates,
        _traced,
    ),
    Tool(
        "substitute_in_graph",
        "reads a Python version of yours instead",
        "bisect, in C",
        buckets,
        _with_python_version,
    ),
    Tool(
        "assume_constant_result",
        "keeps the answer that it gave in tracing",
        "json.loads",
        configured,
        _constant,
    ),
    Tool(
        "nonstrict_trace",
        "puts the call in, for AOTAutograd to trace",
        "pickle.dumps",
        packs,
        _put_in(torch._dynamo.nonstrict_trace),
    ),
    Tool(
        "allow_in_graph",
        "puts the call in, for AOTAutograd to trace",
        "pickle.dumps",
        packs,
        _put_in(torch.compiler.allow_in_graph),
    ),
)


class Used(NamedTuple):
    """What a tool did: counts before and after, and what comes out."""

    tool: Tool
    before: Any
    after: Any
    same: bool
    said: str


INPUTS = (torch.linspace(-1, 2, 8), torch.linspace(3, -1, 3))


def tried(tool: Tool) -> Used:
    """Compile a function without the tool and with it, for two inputs."""
    before = quietly(tool.function, INPUTS[0])
    function, values = tool.use(tool.function)
    with torch._dynamo.config.patch(values), untimed_guards():
        after = quietly(function, INPUTS[0])
        compiled = torch.compile(function, backend="aot_eager", dynamic=False)
        same, lines = [], 0
        for x in INPUTS:
            with _listening() as wanted:
                expected = tool.function(x)
            with _listening() as got:
                result = compiled(x)
            same.append(torch.allclose(result, expected))
            lines += len(wanted) - len(got)
    said = "lost" if lines else "kept" if wanted else ""
    return Used(tool, before, after, all(same), said)


@contextlib.contextmanager
def _listening() -> Iterator[list[str]]:
    """Collect what is printed and logged in the block."""
    found: list[str] = []
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    log.addHandler(handler)
    log.setLevel("INFO")
    try:
        with contextlib.redirect_stdout(said):
            yield found
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)
    found += said.getvalue().splitlines()


def table_of(used: list[Used]) -> Table:
    """Return a table of what each tool did."""
    rows = [
        [
            u.tool.what,
            u.tool.name,
            u.tool.does,
            f"{u.before.count}, then {u.after.count}",
        ]
        for u in used
    ]
    headings = ["line", "tool", "what it does", "graphs"]
    return Table.of(headings, rows)
