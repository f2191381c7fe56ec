"""The bytes that a program moves when it runs eagerly, one aten call at a time.

It is the count to set against `Kernels.bytes`, Inductor's for the compiled program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import _torch, session
from .capture import op_name
from .errors import InputError
from .results import Result
from .text import Table, count, size


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


def eager_bytes(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: dict[str, Any] | None = None,
    backward: bool | None = None,
) -> EagerBytes:
    """Return the bytes that ``fn(*inputs, **kwargs)`` moves when it runs eagerly.

    Each aten call reads its tensors and writes its results, each once; views and empty
    tensors move nothing, and of a table that is indexed only the rows that are named
    count.  *backward* as for `kernels`.  Source: TorchDispatchMode.

    Raises InputError when *fn* raises, or the inputs are on two devices.
    """
    return EagerBytes(tuple(counted(Counting(), fn, inputs, kwargs or {}, backward)))


def counted(
    counting: Counting,
    fn: Callable[..., Any],
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    backward: bool | None = None,
) -> list[Any]:
    """Return what *counting* notes of each call; arguments, errors as `eager_bytes`."""
    session.check_callable(fn, (inputs, kwargs))

    def run(*own: Any, **named: Any) -> None:
        counting.begin(fn, own, named)
        with counting:
            session.both_ways(_torch.unwrap(fn), backward)(*own, **named)

    with session.undisturbed(fn):
        session.call(run, inputs, kwargs)
    return counting.calls


class Counting(TorchDispatchMode):
    """Notes the name and bytes of each aten call that moves some, in the block."""

    supports_higher_order_operators = True  # such as cond and flex_attention

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def begin(self, *objects: Any) -> None:
        """Look at what is there before the program begins."""

    def noted(self, func: Any, moved: int, given: Any, result: Any) -> Any:
        """Return what is noted of a call; *given* are its arguments, by place, name."""
        return op_name(func), moved

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            raise InputError(f"nobody can count what {func.name()} does inside")
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if moved := _moved(func, args, kwargs, result):
            self.calls.append(self.noted(func, moved, (args, kwargs), result))
        return result


# They read a row for each index, and not the whole table.
_GATHERS = {"embedding", "index", "index_select", "gather", "take"}
# They write their first tensor without a look at it.
_FILLS = {"copy", "fill", "zero", "foreach_copy", "foreach_zero"}
_FILLS |= {"normal", "uniform", "bernoulli", "random", "exponential"}
# In place they write the places that an index names, and leave the rest alone;
# those that accumulate read these places first.
_INDEXED = {"index_put", "index_put_impl", "index_copy", "index_fill", "put", "scatter"}
_ACCUMULATES = {"index_add", "index_reduce", "scatter_add", "scatter_reduce"}
BY_INDEX = _GATHERS | _INDEXED | _ACCUMULATES
BY_INDEX |= {"embedding_bag", "embedding_bag_forward_only"}


def _moved(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> int:
    """Return the bytes that one aten call reads and writes; 0 for a view."""
    name, formal = op_name(func), func._schema.arguments
    given = {arg.name: value for arg, value in zip(formal, args, strict=False)} | kwargs
    targets = [given[arg.name] for arg in formal if arg.is_write and arg.name in given]
    in_place = any(arg.name == "self" and arg.is_write for arg in formal)
    if in_place and name in _INDEXED | _ACCUMULATES:
        return _moved_by_index(name, given)
    blind = name in _FILLS
    unread = [arg.name for arg in formal if arg.is_write and (blind or arg.is_out)]
    read = _tensors([value for key, value in given.items() if key not in unread])
    written = _tensors([result, targets])  # many with lists return nothing
    memory = {t.untyped_storage().data_ptr() for t in read if t.nbytes}
    shares = any(t.untyped_storage().data_ptr() in memory for t in written)
    view = (shares and not targets) or torch.Tag.inplace_view in func.tags
    if view or "empty" in func.name():
        return 0
    total = sum(map(bytes_of, written))
    if name.endswith("_like") or name.startswith("new_"):  # they ask for the shape only
        return total
    tables = {t.dtype for t in written} if name in _GATHERS else ()  # not the index
    most = total
    if name.startswith("embedding_bag") and "weight" in given:  # it adds rows up
        tables, most = {given["weight"].dtype}, given["indices"].numel()
        most *= given["weight"].shape[1] * given["weight"].itemsize
    return total + sum(
        min(bytes_of(t), most) if t.dtype in tables else bytes_of(t) for t in read
    )


def _moved_by_index(name: str, given: dict[str, Any]) -> int:
    """Return the bytes of a write in place to where an index names."""
    table = given["self"]
    if "indices" in given:  # of index_put_: a tensor, or None, for each dimension
        numbers = torch.ops.aten.index(table, given["indices"]).numel()
    elif name.startswith("index"):  # a row for each index
        numbers = table.index_select(given["dim"], given["index"]).numel()
    else:  # a number for each index
        numbers = given["index"].numel()
    places = numbers * table.itemsize
    accumulates = name in _ACCUMULATES or given.get("accumulate")
    reads = sum(
        min(bytes_of(t), places) if t.dtype == table.dtype else bytes_of(t)
        for t in _tensors([value for key, value in given.items() if key != "self"])
    )
    return places * (2 if accumulates else 1) + reads


def _tensors(tree: Any) -> list[Any]:
    leaves = [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]
    if any(t.layout is not torch.strided or t.is_nested for t in leaves):
        raise InputError("the bytes of sparse and nested tensors cannot be counted")
    return list({id(t): t for t in leaves}.values())


def bytes_of(tensor: Any) -> int:  # what is expanded, or overlaps, is in memory once
    sizes = [*zip(tensor.shape, tensor.stride(), strict=True)]
    numbers = prod(n for n, stride in sizes if stride)
    span = 1 + sum((n - 1) * stride for n, stride in sizes)
    return (min(numbers, span) if numbers else 0) * tensor.itemsize
