"""The bytes that a program moves when it runs eagerly, one aten call at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from helpers import compat, isolate
from helpers.lowering import op_name
from helpers.results import stored
from helpers.text import Table, count, pre, size


def both_ways(
    fn: Callable[..., Any],
    backward: bool | None,
    seed: Callable[..., Any] = torch.ones_like,
) -> Callable[..., None]:
    """Return a function that runs *fn* and, if asked or needed, its backward."""

    def run(*inputs: Any) -> None:
        leaves = compat.private("trees").tree_leaves(fn(*inputs))
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        if not tensors:
            raise isolate.InputError(
                "the function returns no tensor: return what it computes, or the "
                "compiler has nothing to compute"
            )
        roots = [t for t in tensors if t.requires_grad]
        if backward and not roots:
            raise isolate.InputError(
                "backward=True, but no output requires gradients: call "
                "x.requires_grad_() on an input first"
            )
        if roots and backward is not False:
            ones = [seed(t) for t in roots]
            torch.autograd.grad(roots, _leaves(roots), ones, allow_unused=True)

    return run


def _leaves(roots: list[Any]) -> list[Any]:
    """Return the leaf tensors whose gradients a backward from *roots* computes."""
    todo, seen, found = [t.grad_fn for t in roots], set(), []
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if hasattr(node, "variable"):
                found.append(node.variable)
            todo += [after for after, _ in node.next_functions]
    return found or roots


@stored
@dataclass(frozen=True)
class EagerBytes:
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
    isolate.check_callable(fn, inputs)
    calls: list[tuple[str, int]] = []

    class Count(compat.private("dispatch")):
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
            both_ways(compat.unwrap(fn), backward, seed)(*own)

    with isolate.undisturbed(fn):
        isolate.call(counted, inputs, {})
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
    leaves = compat.private("trees").tree_leaves(tree)
    return list({id(t): t for t in leaves if isinstance(t, torch.Tensor)}.values())


def _size(tensor: Any) -> int:  # a dimension that is expanded is not in memory
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(n for n, stride in sizes if stride) * tensor.itemsize
