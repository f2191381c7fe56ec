"""The tensors in anything that a function takes, returns or holds.

One walk finds them, and `clone` copies what it found.  Both look into tuples, lists,
dictionaries, dataclasses, and into the attributes of any other plain object: an output
of a Hugging Face model, a key-value cache, a distribution.
"""

from __future__ import annotations

import copy
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch

from .errors import InputError

CONTAINERS = (tuple, list, set, frozenset, deque)
# Not looked into: text, numbers and code hold no tensors.
_OPAQUE = (str, bytes, int, float, type, types.ModuleType, types.FunctionType)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield each tensor in *value* once, in order; of a module, all it has."""
    for item in walk(value):
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, torch.nn.Module):
            yield from (*item.parameters(), *item.buffers())


def inside(item: Any) -> Iterable[Any]:
    """Return the objects one step inside *item*; a tensor or module has none."""
    if isinstance(item, (torch.Tensor, torch.nn.Module, *_OPAQUE)):
        return ()
    if isinstance(item, Mapping):
        return item.values()
    if isinstance(item, CONTAINERS):
        return item
    return getattr(item, "__dict__", {}).values()


def walk(value: Any) -> Iterator[Any]:
    """Yield *value* and all that is `inside` it, in order, each object once."""
    steps = found({None: value}, lambda item: ((None, one) for one in inside(item)))
    return (item for _, item in steps)


Trail = tuple[Any, Any]
"""Where something was found: the trail to what holds it, None of a root, and a way."""


def found(
    roots: Mapping[Any, Any], steps: Callable[[Any], Iterable[tuple[Any, Any]]]
) -> Iterator[tuple[Trail, Any]]:
    """Yield all that the *roots* hold, each once, with the trail that leads there.

    *steps* gives what an object holds, with the way to each.
    """
    seen = dict[int, Any]()
    todo = [((None, name), root) for name, root in roots.items()][::-1]
    while todo:
        trail, item = todo.pop()
        if id(item) not in seen:
            seen[id(item)] = item  # kept alive, or an id could come again
            yield trail, item
            todo += [((trail, way), one) for way, one in steps(item)][::-1]


def clone(value: Any) -> Any:
    """Return *value* with its tensors copied, so that a call may overwrite them.

    What changes how much memory a function reads stays as it is: strides, tensors
    that share memory, a tensor that occurs twice.  So do leaves of autograd, their
    gradients, what a tensor has as attributes, such as the marks of ``mark_dynamic``,
    and whether it is of inference mode.  Modules are shared, not copied.
    """
    # What deepcopy finds in its memo, by id, it takes for copied already.
    memo: dict[int, Any] = {}
    for item in walk(value):
        if isinstance(item, torch.Tensor):
            with torch.inference_mode(item.is_inference()):
                memo[id(item)] = _copy(item, memo)
        elif isinstance(item, torch.nn.Module):
            memo[id(item)] = item
    return copy.deepcopy(value, memo)


def memory_of(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's memory, and 0 for one without."""
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.numel():
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a subclass without memory
        return 0


def with_gaps(value: torch.Tensor) -> torch.Tensor:
    """Return the memory from the first to the last element, in one dimension."""
    steps = zip(value.shape, value.stride(), strict=True)
    return value.as_strided((1 + sum((n - 1) * step for n, step in steps),), (1,))


def _rebuilt(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """Return a copy of one whose class makes a plain tensor of a copy, from inside."""
    if not hasattr(kind := type(tensor), "__tensor_unflatten__"):
        raise InputError(f"{kind.__name__}.detach() is a plain tensor: it has no copy")
    names, rest = tensor.__tensor_flatten__()
    parts = {name: _copy(getattr(tensor, name), memo) for name in names}
    return kind.__tensor_unflatten__(parts, rest, tensor.shape, tensor.stride())


def _copy(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    value, is_weight = tensor.detach(), isinstance(tensor, torch.nn.Parameter)
    plain = type(value) is torch.Tensor
    strided = plain and value.layout is torch.strided
    if plain and type(tensor) is not torch.Tensor and not is_weight:
        new = _rebuilt(tensor, memo)
    elif strided and not value.is_nested and value.numel():
        block = with_gaps(value)
        memory = value.untyped_storage().nbytes()
        if memory > 4 * block.nbytes + (64 << 20):  # a batch of a data set
            new = block.clone().as_strided(value.shape, value.stride())
        else:
            new = copy.deepcopy(value, memo)  # the memory once for all that share it
    else:
        new = value.clone()
    if is_weight:
        new = torch.nn.Parameter(new, tensor.requires_grad)
    new.requires_grad_(tensor.requires_grad)
    if tensor.is_leaf and tensor.grad is not None:
        new.grad = copy.deepcopy(tensor.grad.detach(), memo)
    for name in vars(tensor).keys() - vars(new).keys():
        item = vars(tensor)[name]
        with suppress(Exception):  # such as a lock: it has no copy
            item = copy.deepcopy(item, memo)
        vars(new)[name] = item
    return new
