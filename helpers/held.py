"""What a function holds besides its inputs, and putting it back after calls.

Inputs can be copied before a call.  What a function finds by itself cannot: the
modules, optimizers and tensors in its closure and globals, behind its ``self``, and
in the functions of the same file that it calls.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from functools import partial
from operator import is_
from typing import Any

import torch

from helpers import compat

_Table = dict[Any, Any] | list[Any]


def held(*functions: Any) -> list[Any]:
    """Return the modules, optimizers and tensors that *functions* hold, each once."""
    found, seen, todo = [], dict[int, Any](), list(functions)
    homes = [scope for fn in functions if (scope := _scope(fn)) is not None]
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # kept alive, or its id could come again
        if isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)):
            found.append(value)
        todo += _inside(value, homes)
    return found


def _scope(fn: Any) -> dict[str, Any] | None:
    """Return the globals of the file that *fn* stands in, if it is Python."""
    fn = compat.unwrap(fn) if callable(fn) else fn
    fn = fn.func if isinstance(fn, partial) else fn
    return getattr(getattr(fn, "__func__", fn), "__globals__", None)


def _inside(value: Any, homes: list[dict[str, Any]]) -> list[Any]:
    """Return what is one step further in than *value*."""
    if isinstance(value, dict):
        return [*value, *value.values()]  # an optimizer's state has tensors for keys
    if isinstance(value, (list, tuple, set)):
        return list(value)
    if isinstance(value, torch.nn.Module):
        return [vars(value), compat.unwrap(value)]
    if isinstance(value, torch.optim.Optimizer):
        return [value.param_groups, value.state]
    if isinstance(value, torch.Tensor) or not callable(value):
        return []
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.FunctionType):
        wrapped = compat.unwrap(value)
        if wrapped is not value:
            return [wrapped]
        mine = any(value.__globals__ is home for home in homes)
        return [*_cells(value), *_globals(value)] if mine else []
    owner = getattr(value, "__self__", None)  # of a method, also of x.copy_
    mine = isinstance(value, types.MethodType) and hasattr(owner, "__dict__")
    attributes = vars(owner) if mine and not isinstance(owner, type) else None
    return [owner, getattr(value, "__func__", None), attributes]


def _cells(fn: types.FunctionType) -> Iterator[Any]:
    for cell in fn.__closure__ or ():
        with contextlib.suppress(ValueError):  # nothing is in it yet
            yield cell.cell_contents


def _globals(fn: types.FunctionType) -> Iterator[Any]:
    """Yield the globals that *fn* names, and the functions inside it."""
    codes = [fn.__code__]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        names = [name for name in code.co_names if name in fn.__globals__]
        yield from (fn.__globals__[name] for name in names)


@contextlib.contextmanager
def kept(*functions: Any) -> Iterator[None]:
    """Run the block, then put back what calls changed in what *functions* hold.

    That is attributes, buffers and parameters of modules, groups and state of
    optimizers, and the values and gradients of all tensors.
    """
    things = held(*functions)
    tables = [(t, t.copy()) for thing in things for t in _tables(thing)]
    tensors = [t for t in things if isinstance(t, torch.Tensor) and _plain(t)]
    gradients = [(t, t.grad) for t in tensors if t.is_leaf]
    tensors += [grad for _, grad in gradients if grad is not None and _plain(grad)]
    values = [(t, t.detach().clone()) for t in tensors]
    try:
        yield
    finally:
        for live, before in tables:
            if not _same(live, before):  # untouched, or guards may have to run again
                live.clear()
                (live.extend if isinstance(live, list) else live.update)(before)
        for tensor, gradient in gradients:
            tensor.grad = gradient
        for tensor, value in values:
            if not torch.equal(tensor, value):
                tensor.data.copy_(value)  # .data: autograd must not take it for a write


def _same(a: _Table, b: _Table) -> bool:
    """Return whether both hold the very same objects, in the same order."""
    ours, theirs = ([*x, *x.values()] if isinstance(x, dict) else x for x in (a, b))
    return len(ours) == len(theirs) and all(map(is_, ours, theirs))


def _tables(thing: Any) -> Iterator[_Table]:
    """Yield the dicts and lists in which a module or an optimizer keeps things."""
    if isinstance(thing, torch.nn.Module):
        yield from (vars(thing)[name] for name in ("_parameters", "_buffers"))
    elif isinstance(thing, torch.optim.Optimizer):
        yield from _nested([thing.param_groups, thing.state])
    if not isinstance(thing, torch.Tensor):
        yield vars(thing)


def _nested(value: Any) -> Iterator[_Table]:
    if isinstance(value, (dict, list)):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _nested(each)


def _plain(t: torch.Tensor) -> bool:
    """Return whether *t* has values that can be compared and copied."""
    lazy = isinstance(t, torch.nn.parameter.UninitializedTensorMixin)
    return t.layout is torch.strided and not t.is_meta and not lazy
