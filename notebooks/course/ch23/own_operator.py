"""Operators that are wrong in one place each, and what becomes of them.

Each is compiled, float64 judges the results, and opcheck has its turn.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.library import custom_op, opcheck

from course.failures import failure
from course.lowering import past_the_caches
from course.values import as_near, forward_and_backward
from helpers import device
from helpers.text import Table

Tensor = torch.Tensor


def said(error: BaseException) -> str:
    """Return the first sentence of what an operator raised."""
    text = str(error)
    # Dynamo quotes what an operation of the graph raised.
    inner = re.search(r"got \w+\(([\"'])(.*?)\1\)\n", text, re.DOTALL)
    return (inner[2] if inner else text).split(". ")[0]


def _tanh(x: Tensor) -> Tensor:
    return torch.tanh(x)


def _operator(
    name: str,
    function: Callable[..., Any],
    fake: Callable[..., Any] = torch.empty_like,
    slope: Callable[[Tensor], Tensor] | None = None,
) -> Any:
    """Return an operator of one tensor; *slope* is the derivative at x."""
    found = custom_op(f"mistakes::{name}", function, mutates_args=())
    found.register_fake(fake)
    if slope:

        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * slope(*ctx.saved_tensors)

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        found.register_autograd(backward, setup_context=keep)
    return found


def _right_slope(x: Tensor) -> Tensor:
    return 1 - torch.tanh(x).square()


def _positive(x: Tensor) -> Tensor:
    return x[x > 0].tanh()


def _counts(x: Tensor) -> Tensor:
    return x.new_empty(int((x > 0).sum().item()))


@dataclass(frozen=True)
class Mistake:
    """An operator that is wrong in one place, and the line that fixes it."""

    what: str
    operator: Any
    fix: str
    truth: Callable[[Tensor], Tensor] = torch.tanh
    trains: bool = False
    turned: bool = False
    program: Callable[..., Any] | None = None
    """Makes a program of the operator; by default, it is called once."""


def _twice(function: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    """Return a program that keeps two results."""
    return lambda x: function(x) + function(2 * x)


def _rows(x: Tensor) -> Tensor:
    return x.tanh().contiguous()


def _flat(x: Tensor) -> Tensor:  # takes memory as if it were in rows
    return x.as_strided(x.shape, torch.empty(x.shape).stride()).tanh()


_KEPT: dict[Any, Tensor] = {}


def _workspace(x: Tensor) -> Tensor:
    return torch.tanh(x, out=_KEPT.setdefault((x.shape, x.dtype), torch.empty_like(x)))


MISTAKES = (
    Mistake(
        "fake has other strides",
        _operator("rows", _rows),
        "return x.new_empty(x.shape)",
        turned=True,
    ),
    Mistake(
        "ignores strides of x",
        _operator("flat", _flat, lambda x: x.new_empty(x.shape)),
        "x = x.contiguous()",
        turned=True,
    ),
    Mistake(
        "reuses one result",
        _operator("workspace", _workspace),
        "return result.clone()",
        program=_twice,
    ),
    Mistake(
        "fake reads a value",
        _operator("reads", _positive, _counts),
        "n = torch.library.get_ctx().new_dynamic_size()",
        truth=_positive,
    ),
    Mistake(
        "gradient twice too large",
        _operator("twice", _tanh, slope=lambda x: 2 * _right_slope(x)),
        "gradcheck in float64 finds it",
        trains=True,
    ),
)


def mistakes_table() -> Table:
    """Return what becomes of each mistake, and the line that fixes it.

    It runs compiled, and the first check of opcheck that fails is named.
    """
    headings = ("mistake", "compiled", "opcheck", "fix")
    return Table.of(headings, [_row(mistake) for mistake in MISTAKES])


def _row(mistake: Mistake) -> tuple[str, ...]:
    operator = mistake.operator
    torch.manual_seed(0)
    x = torch.randn(4, 6, device=device())
    x = x.t() if mistake.turned else x
    program = mistake.program or (lambda operator: lambda x: operator(x))
    function = program(operator)
    with past_the_caches():  # which know an operator by its name alone
        compiled = _judged(torch.compile(function, fullgraph=True), mistake, x)
    checked = _opcheck(operator, x, mistake.trains)
    return mistake.what, compiled, checked, mistake.fix


def _opcheck(operator: Any, x: Tensor, trains: bool) -> str:
    """Return the first check that fails, or ``passes``."""
    given = (x.detach().clone().requires_grad_(trains),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = opcheck(operator, given, raise_exception=False)
    failed = (name for name, result in told.items() if result != "SUCCESS")
    return next(failed, "passes")


def _judged(function: Callable[..., Any], mistake: Mistake, x: Tensor) -> str:
    """Return ``right``, what is wrong, or ``raises``."""
    found: list[Any] = []

    def run() -> None:
        if mistake.trains:
            found[:] = _both(function, x)
        else:
            found[:] = [function(x.clone()).to(x)]

    if failure(run):
        return "raises"
    truth = _twice(mistake.truth) if mistake.program is _twice else mistake.truth
    exact, usual = _both(truth, x.double()), _both(truth, x)
    for name, *three in zip(("values", "gradient"), exact, usual, found, strict=False):
        if not as_near(*three):
            return f"wrong {name}"
    return "right"


def _both(function: Callable[..., Any], x: Tensor) -> list[Any]:
    values, [slope] = forward_and_backward(function, [x], x.dtype)
    return [values, slope]
