"""Bugs to plant in the compiler, to see who notices.

    with planted("atan2's lowering"):
        ...  # compiled anew, without caches, by a broken compiler

Each is taken out again when the block ends, whatever happens in it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._functorch import config as autograd_config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import lowerings

from course import bugs
from course.bugs import planted_in
from course.lowering import past_the_caches

aten = torch.ops.aten


@contextlib.contextmanager
def planted(bug: str) -> Iterator[None]:
    """Plant a bug; take it out, and all that was compiled with it."""
    with past_the_caches(), BUGS[bug]():
        yield


def lowered(op: Any, wrong: Callable[..., Any]) -> Any:
    """Plant *wrong*, which is given the true lowering of *op* first."""
    return _replaced(lowerings, op, wrong)


def _replaced(table: Any, op: Any, wrong: Callable[..., Any]) -> Any:
    true = table[op]
    return mock.patch.dict(
        table, {op: lambda *given, **how: wrong(true, *given, **how)}
    )


def _decomposed(op: Any, wrong: Callable[..., Any]) -> Any:
    return _replaced(select_decomp_table(), op, wrong)


def _in_the_joint_graph(place: int) -> Any:
    return autograd_config.patch(
        joint_custom_pass=lambda joint, inputs: bugs.negated(joint, place)
    )


def _forgets_nan(true: Any, a: Any, b: Any) -> Any:
    return lowerings[aten.where.self](lowerings[aten.ge.Tensor](a, b), a, b)


def _other_tail(source: str) -> str:
    """Change C++ where a vector is filled in part: its second argument is how far."""
    whole, count = r"(at::vec::Vectorized<float>)::loadu", r"int64_t>\(\d+L\)"
    return re.sub(rf"{whole}\(.*?, static_cast<{count}\)", r"\1(0.5f)", source)


def _last_wins(true: Any, grad: Any, index: Any, rows: Any, *_: Any) -> Any:
    empty = grad.new_zeros(rows, grad.shape[-1])
    flat = grad.reshape(-1, grad.shape[-1])
    return torch.index_put(empty, (index.reshape(-1),), flat)


def _steep(true: Any, *given: Any, **how: Any) -> Any:
    return true(*given, **how) * 1.1


BUGS: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    # One for each layer.
    "a constant, behind Dynamo": lambda: planted_in(OutputGraph, bugs.other_constant),
    "a sign, in the joint graph": lambda: _in_the_joint_graph(-1),
    "gelu's decomposition": lambda: planted_in(select_decomp_table(), bugs.other_gelu),
    "erf's lowering": lambda: planted_in(lowerings, bugs.tanh_for_erf),
    "relu's lowering": lambda: lowered(
        aten.relu.default, lambda true, x: lowerings[aten.abs.default](x)
    ),
    "relu's lowering raises": lambda: planted_in(lowerings, bugs.cannot_lower, "relu"),
    "gelu's decomposition raises": lambda: planted_in(
        select_decomp_table(), bugs.cannot_lower, "gelu"
    ),
    "the result's sign, in the joint graph": lambda: _in_the_joint_graph(0),
    # What a test of one model does not see: wrong values, and wrong gradients.
    "atan2's lowering": lambda: lowered(
        aten.atan2.default, lambda true, a, b: true(b, a)
    ),
    "maximum forgets NaN": lambda: lowered(aten.maximum.default, _forgets_nan),
    "the last elements of an odd size": lambda: planted_in(
        AsyncCompile, bugs.on_source, _other_tail
    ),
    "hardswish's gradient": lambda: _decomposed(
        aten.hardswish_backward.default, _steep
    ),
    "an embedding's repeated rows": lambda: _decomposed(
        aten.embedding_dense_backward.default, _last_wins
    ),
    "gelu's gradient": lambda: _decomposed(aten.gelu_backward.default, _steep),
}
