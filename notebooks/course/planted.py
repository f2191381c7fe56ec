"""Bugs to plant in the compiler, to see who notices.

    with planted("atan2's lowering"):
        ...  # compiled anew, without caches, by a broken compiler

Each is taken out again when the block ends, whatever happens in it.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._dynamo import guards
from torch._dynamo.variables.ctx_manager import AutocastModeVariable
from torch._inductor import ir
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import lowerings
from torch._inductor.virtualized import V

from course import bugs
from course.bugs import planted_in
from course.lowering import past_the_caches

aten = torch.ops.aten


@dataclass(frozen=True)
class Bug:
    """A fault, how it is planted, and the first backend that has it.

    ``one_call``: whether one call is enough to show it.
    """

    name: str
    plant: Callable[[], contextlib.AbstractContextManager[Any]]
    backend: str = "inductor"
    one_call: bool = True


BUGS: dict[str, Bug] = {}


def _bug(
    name: str, backend: str = "inductor", one_call: bool = True
) -> Callable[[Any], Any]:
    def keep(plant: Any) -> Any:
        BUGS[name] = Bug(name, plant, backend, one_call)
        return plant

    return keep


@contextlib.contextmanager
def planted(name: str) -> Iterator[Bug]:
    """Plant a bug; take it out, and all that was compiled with it."""
    bug = BUGS[name]
    with past_the_caches(), bug.plant():
        yield bug


def lowered(op: Any, wrong: Callable[..., Any]) -> Any:
    """Plant *wrong*, which is given the true lowering of *op* first."""
    true = lowerings[op]
    return mock.patch.dict(
        lowerings, {op: lambda *given, **how: wrong(true, *given, **how)}
    )


def decomposed(op: Any, wrong: Callable[..., Any]) -> Any:
    """Plant *wrong*, which is given the true decomposition of *op* first."""
    table = select_decomp_table()
    true = table[op]
    return mock.patch.dict(
        table, {op: lambda *given, **how: wrong(true, *given, **how)}
    )


# Wrong values.


@_bug("atan2's lowering")
def _atan2() -> Any:
    return lowered(aten.atan2.default, lambda true, a, b: true(b, a))


@_bug("maximum forgets NaN")
def _maximum() -> Any:
    def larger(true: Any, a: Any, b: Any) -> Any:
        at_least = lowerings[aten.ge.Tensor](a, b)
        return lowerings[aten.where.self](at_least, a, b)

    return lowered(aten.maximum.default, larger)


@_bug("the last elements of an odd size")
def _tail() -> Any:
    # A vector that is filled in part: its second argument is how far.
    whole, count = r"(at::vec::Vectorized<float>)::loadu", r"int64_t>\(\d+L\)"
    partial = rf"{whole}\(.*, static_cast<{count}\)"

    def other_tail(source: str) -> str:
        # The same number each time, where garbage might happen to be right.
        return re.sub(partial, r"\1(0.5f)", source)

    return planted_in(AsyncCompile, bugs.on_source, other_tail)


@_bug("a size is remembered, not asked", one_call=False)
def _hint() -> Any:
    def mean(true: Any, x: Any, axes: Any, *rest: Any, **how: Any) -> Any:
        total = lowerings[aten.sum.dim_IntList](x, axes, *rest, **how)
        sizes = [x.get_size()[axis] for axis in axes]
        known = V.graph.sizevars
        if not (hint := getattr(known, "guarding_hint_or_throw", None)):
            hint = known.size_hint_or_throw  # its name in torch 2.11
        seen = map(hint, sizes)
        return lowerings[aten.div.Tensor](total, float(math.prod(seen)))

    return lowered(aten.mean.dim, mean)


# Wrong gradients, where results are right.


@_bug("hardswish's gradient", "aot_eager_decomp_partition")
def _hardswish() -> Any:
    def steep(true: Any, grad: Any, x: Any) -> Any:
        return true(grad, x) * 1.1

    return decomposed(aten.hardswish_backward.default, steep)


@_bug("an embedding's repeated rows", "aot_eager_decomp_partition")
def _embedding() -> Any:
    def last_wins(true: Any, grad: Any, index: Any, rows: Any, *_: Any) -> Any:
        empty = grad.new_zeros(rows, grad.shape[-1])
        flat = grad.reshape(-1, grad.shape[-1])
        return torch.index_put(empty, (index.reshape(-1),), flat)

    return decomposed(aten.embedding_dense_backward.default, last_wins)


@_bug("the gradient of a slice", "aot_eager_decomp_partition")
def _slice() -> Any:
    def shifted(true: Any, grad: Any, *rest: Any) -> Any:
        sizes, dim, start, *others = rest
        if start == 0:
            return true(grad, *rest)
        return true(grad, sizes, dim, start, *others).roll(1, dim)

    return decomposed(aten.slice_backward.default, shifted)


@_bug("gelu's gradient", "aot_eager_decomp_partition")
def _gelu() -> Any:
    def steep(true: Any, grad: Any, x: Any, **how: Any) -> Any:
        return true(grad, x, **how) * 1.1

    return decomposed(aten.gelu_backward.default, steep)


# What one call does not show.


@_bug("a global is not guarded", "eager", one_call=False)
def _global() -> Any:
    def of_a_global(_: Any, guard: Any) -> bool:
        return guard.originating_source.name.startswith("G[")

    kinds = ["CONSTANT_MATCH", "EQUALS_MATCH"]
    return planted_in(guards.GuardBuilder, bugs.unguarded, kinds, of_a_global)


@_bug("one tensor given twice is not guarded", "aot_eager", one_call=False)
@contextlib.contextmanager
def _alias() -> Iterator[None]:
    kinds = ["DUPLICATE_INPUT"]
    with (
        mock.patch.object(guards, "install_no_tensor_aliasing_guard"),
        planted_in(guards.GuardBuilder, bugs.unguarded, kinds, lambda *_: True),
    ):
        yield


@_bug("cond has one branch", one_call=False)
def _cond() -> Any:
    if hasattr(ir, "Switch"):  # from torch 2.15 on
        switch = ir.Switch.create

        def last(which: Any, branches: Any, *rest: Any, **how: Any) -> Any:
            return switch(which, [branches[-1]] * len(branches), *rest, **how)

        return mock.patch.object(ir.Switch, "create", last)
    create = ir.Conditional.create

    def always(pred: Any, true: Any, false: Any, operands: Any) -> Any:
        return create(pred, true, true, operands)

    return mock.patch.object(ir.Conditional, "create", always)


@_bug("dropout repeats its mask", one_call=False)
def _dropout() -> Any:
    return planted_in(ir.RandomSeeds, bugs.before_seeds, "torch.manual_seed(0)")


@_bug("autocast is ignored", "eager", one_call=False)
def _autocast() -> Any:
    return planted_in(AutocastModeVariable, bugs.no_autocast)
