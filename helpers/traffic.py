"""The bytes that a program moves when it runs eagerly, one aten call at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import _torch, session
from helpers.codegen import op_name
from helpers.results import Result
from helpers.session import both_ways
from helpers.text import Table, count, pre, size


@dataclass(frozen=True, repr=False)
class EagerBytes(Result):
    """The aten calls of one eager call, each with the bytes it reads and writes."""

    calls: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        """Bytes moved by all calls."""
        return sum(moved for _, moved in self.calls)

    def __str__(self) -> str:
        rows = [(name, size(moved)) for name, moved in self.calls]
        last = f"{count(len(rows), 'call')}, {size(self.bytes)}"
        return f"{Table.of(('op', 'bytes'), rows)}\n{last}" if rows else last

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return pre(self)


def eager_bytes(
    fn: Callable[..., Any], *inputs: Any, backward: bool | None = None
) -> EagerBytes:
    """Return what ``fn(*inputs)`` moves when it runs eagerly, one aten call at a time.

    A call reads its tensors and writes its results, each once; views and empty
    tensors move nothing.  *backward* as for `kernels`.  Source: TorchDispatchMode.
    """
    session.check_callable(fn, inputs)
    calls: list[tuple[str, int]] = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if moved := _moved(func, args, kwargs or {}, result):
                calls.append((op_name(func), moved))
            return result

    def seed(tensor: Any) -> Any:  # the caller's work, not the function's
        done = len(calls)
        ones = torch.ones_like(tensor)
        del calls[done:]
        return ones

    def counted(*own: Any) -> None:
        with Count():
            both_ways(_torch.unwrap(fn), backward, seed)(*own)

    with session.undisturbed(fn):
        session.call(counted, inputs, {})
    return EagerBytes(tuple(calls))


# They read a row for each index, and not the whole table.
_GATHERS = {"embedding", "index", "index_select", "gather", "take"}
# They write their first tensor without a look at it.
_FILLS = {"copy", "fill", "zero", "foreach_copy", "foreach_zero"}
_FILLS |= {"normal", "uniform", "bernoulli", "random", "exponential"}


def _moved(func: Any, args: Any, kwargs: dict[str, Any], made: Any) -> int:
    """Return the bytes that one aten call reads and writes; 0 for a view."""
    name, formal = op_name(func), func._schema.arguments
    pairs = list(zip(formal, args, strict=False))
    pairs += [(each, kwargs[each.name]) for each in formal if each.name in kwargs]
    blind = name in _FILLS
    targets = [v for each, v in pairs if each.is_write]
    read = _tensors([v for a, v in pairs if not (a.is_write and (blind or a.is_out))])
    written = _tensors([made, targets])  # many with lists return nothing
    held = {t.untyped_storage().data_ptr() for t in read if t.nbytes}
    shares = any(t.untyped_storage().data_ptr() in held for t in written)
    view = (shares and not targets) or torch.Tag.inplace_view in func.tags
    if view or "empty" in func.name():
        return 0
    total = sum(map(_size, written))
    limit = total if name in _GATHERS else float("inf")
    return total + sum(min(_size(t), limit) for t in read)


def _tensors(tree: Any) -> list[Any]:
    leaves = pytree.tree_leaves(tree)
    return list({id(t): t for t in leaves if isinstance(t, torch.Tensor)}.values())


def _size(tensor: Any) -> int:  # a dimension that is expanded is not in memory
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(n for n, stride in sizes if stride) * tensor.itemsize
