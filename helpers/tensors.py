"""The tensors in anything that a function takes, returns or holds.

One walk finds them, `clone` and `map_tensors` copy what it found.  All look into
tuples, lists, dictionaries, dataclasses, and into the attributes of any other plain
object: an output of a Hugging Face model, a key-value cache, a distribution.
"""

from __future__ import annotations

import copy
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from helpers._torch import copy_marks

CONTAINERS = (tuple, list, set, frozenset, deque)
# Not looked into: text, numbers and code hold no tensors of the reader.
_OPAQUE = (str, bytes, int, float, type, types.ModuleType, types.FunctionType)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield each tensor in *value* once, in order; of a module, all it has."""
    for item in walk(value):
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, torch.nn.Module):
            yield from item.parameters()
            yield from item.buffers()


def parts(item: Any) -> Iterable[Any]:
    """Return what is one step inside *item*; nothing is in a tensor or a module."""
    if isinstance(item, (torch.Tensor, torch.nn.Module, *_OPAQUE)):
        return ()
    if isinstance(item, Mapping):
        return item.values()
    if isinstance(item, CONTAINERS):
        return item
    return getattr(item, "__dict__", {}).values()


def walk(value: Any, parts: Callable[[Any], Iterable[Any]] = parts) -> Iterator[Any]:
    """Yield *value* and all that is inside it, in order, each object once.

    *parts* says what is one step inside an object.
    """
    seen, todo = dict[int, Any](), [value]  # kept alive, or an id could come again
    while todo:
        item = todo.pop()
        if id(item) not in seen:
            seen[id(item)] = item
            yield item
            todo += reversed(list(parts(item)))


def map_tensors(change: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """Return a deep copy of *value* with *change* applied to each of its tensors.

    A tensor that occurs twice is changed once.  Modules are shared, not copied.
    """
    # What deepcopy finds in its memo it takes for copied already.
    memo: dict[int, Any] = {}
    for item in walk(value):
        if isinstance(item, torch.Tensor):
            memo[id(item)] = change(item)
        elif isinstance(item, torch.nn.Module):
            memo[id(item)] = item
    return copy.deepcopy(value, memo)


def clone(value: Any) -> Any:
    """Return *value* with its tensors copied, so that a call may overwrite them.

    What changes how much memory a function reads stays as it is: strides, tensors
    that share memory, a tensor that occurs twice.  So do leaves of autograd, their
    gradients, and the marks of ``mark_dynamic``.
    """
    users = Counter(map(_storage, tensors(value)))
    storages: dict[int | None, torch.UntypedStorage] = {}

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        key = _storage(tensor)
        if key is None or users[key] == 1:
            new = _copy(tensor.detach())
        else:
            whole = storages.setdefault(key, tensor.untyped_storage().clone())
            place = tensor.storage_offset(), tensor.shape, tensor.stride()
            new = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            new.set_(whole, *place)
        if isinstance(tensor, torch.nn.Parameter):
            new = torch.nn.Parameter(new, tensor.requires_grad)
        new.requires_grad_(tensor.requires_grad)
        if tensor.is_leaf and tensor.grad is not None:
            new.grad = _copy(tensor.grad)
        copy_marks(tensor, new)
        return new

    return map_tensors(copied, value)


def _storage(tensor: torch.Tensor) -> int | None:
    """Return what tensors that share memory have in common; None for no sharing."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    if not plain or tensor.layout is not torch.strided or tensor.is_meta:
        return None
    if tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
        return None
    return tensor.untyped_storage().data_ptr() or None


def _copy(t: torch.Tensor) -> torch.Tensor:
    """Return a copy of *t* with the strides it has, gaps in memory and all."""
    dense = t.layout is not torch.strided or torch.empty_like(t).stride() == t.stride()
    if dense or not t.numel():
        return t.clone()
    steps = zip(t.shape, t.stride(), strict=True)
    span = 1 + sum((n - 1) * step for n, step in steps)
    return t.as_strided((span,), (1,)).clone().as_strided(t.shape, t.stride())
