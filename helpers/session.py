"""Run a function through the compiler without a trace in the reader's session.

What is already compiled stays compiled, no recompile limit is used up, and the
reader's tensors, modules and random state are what they were.

What a function holds besides its inputs, and putting it back after calls.

Inputs can be copied before a call.  What a function finds by itself cannot: the
modules, optimizers and tensors in its closure and globals, behind its ``self``, and
in the functions of the same file that it calls.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import random
import sys
import types
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from operator import is_
from typing import Any

import torch
from torch.utils import _pytree as pytree

from helpers import _torch
from helpers._torch import needed_for
from helpers.errors import InputError, Unavailable
from helpers.tensors import clone

with needed_for("leaving the session as it was"):
    from torch._dynamo import pgo
    from torch._dynamo import utils as dynamo_utils
    from torch._dynamo.convert_frame import input_codes
    from torch._dynamo.eval_frame import reset_code

with needed_for("compiling with a mode or options"):
    from torch import _TorchCompileInductorWrapper


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
    fn = _torch.unwrap(fn) if callable(fn) else fn
    fn = fn.func if isinstance(fn, partial) else fn
    return getattr(getattr(fn, "__func__", fn), "__globals__", None)


def _inside(value: Any, homes: list[dict[str, Any]]) -> list[Any]:
    """Return what is one step further in than *value*."""
    if isinstance(value, dict):
        return [*value, *value.values()]  # an optimizer's state has tensors for keys
    if isinstance(value, (list, tuple, set)):
        return list(value)
    if isinstance(value, torch.nn.Module):
        return [vars(value), _torch.unwrap(value)]
    if isinstance(value, torch.optim.Optimizer):
        return [value.param_groups, value.state]
    if isinstance(value, torch.Tensor) or not callable(value):
        return []
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.FunctionType):
        wrapped = _torch.unwrap(value)
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


@contextlib.contextmanager
def undisturbed(fn: Callable[..., Any] | None = None) -> Iterator[None]:
    """Run the block, then put the session back, also after an exception.

    Put back: random state (torch, Python, NumPy), grad mode, stance, the
    compiler's counters and history, what it learned about dynamic shapes (which
    is empty inside the block), and what *fn* holds (see `kept`).  Warnings of the
    compiler are silent inside.
    """
    with (
        _compiler_state(),
        _random_state(),
        kept(fn),
        torch.set_grad_enabled(torch.is_grad_enabled()),
        torch.compiler.set_stance("default"),
        _silent(),
    ):
        yield


@contextlib.contextmanager
def _compiler_state() -> Iterator[None]:
    counters, history = _torch.counters, _torch.compilation_metrics
    warned = getattr(dynamo_utils, "warn_once_cache", set())
    names = ("_CODE_STATE", "_INIT_CODE_STATE")
    learned = {name: getattr(pgo, name, None) for name in names}
    kept = copy.deepcopy(counters), list(history), set(warned)
    pgo._CODE_STATE = defaultdict(pgo.CodeState)
    try:
        with _new_codes_forgotten():
            yield
    finally:
        for name, value in learned.items():
            setattr(pgo, name, value)
        for live, before in zip((counters, history, warned), kept, strict=True):
            live.clear()
            (live.extend if isinstance(before, list) else live.update)(before)


@contextlib.contextmanager
def _new_codes_forgotten() -> Iterator[None]:
    """Drop what is compiled, or marked as not to be, for the first time in the block.

    That is the functions *fn* calls; those the reader compiled before keep theirs.
    """
    codes, forget = input_codes, reset_code
    known = set(codes.seen_ids)
    try:
        yield
    finally:
        # Held here, so that none dies, and calls back, before it left the register.
        alive = [code for ref in codes.seen if (code := ref()) is not None]
        new = {id(code): code for code in alive if id(code) not in known}
        codes.seen[:] = [ref for ref in codes.seen if id(ref()) not in new]
        codes.seen_ids -= set(new)
        for code in new.values():
            forget(code)


@contextlib.contextmanager
def _random_state() -> Iterator[None]:
    numpy, python = sys.modules.get("numpy"), random.getstate()
    kept = numpy.random.get_state() if numpy else None
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices=gpus):
            yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.random.set_state(kept)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    def calm(record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING

    logs = [logging.getLogger(n) for n in [*logging.root.manager.loggerDict]]
    mine = [log for log in logs if log.name.split(".")[0] == "torch"]
    handlers = [handler for log in mine for handler in log.handlers]
    for handler in handlers:
        handler.addFilter(calm)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(calm)


def check_callable(fn: Any, inputs: tuple[Any, ...]) -> None:
    """Raise InputError unless *fn* can be called and *inputs* share one device."""
    if not callable(fn):
        raise InputError(
            f"the first argument must be a function or a module, not {fn!r:.60}: "
            "pass f and its inputs, as in graphs(f, x), not the result f(x)"
        )
    leaves = [v for v in pytree.tree_leaves(inputs) if isinstance(v, torch.Tensor)]
    tensors = [t for t in leaves if t.dim()]  # a CPU scalar may go with any device
    devices = sorted({str(t.device) for t in tensors})
    if len(devices) > 1:
        raise InputError(
            f"the inputs are on {' and '.join(devices)}: move them to one device "
            "with x.to(device)"
        )


def on_gpu(inputs: Any) -> bool:
    """Return whether a tensor of *inputs* is on a GPU."""
    leaves = pytree.tree_leaves(inputs)
    return any(isinstance(v, torch.Tensor) and v.is_cuda for v in leaves)


def call(fn: Callable[..., Any], inputs: Any, kwargs: dict[str, Any]) -> Any:
    """Return ``fn(*inputs, **kwargs)`` on copies of the tensors.

    Raises InputError when *fn* itself raises, with its message.
    """
    inputs, kwargs = clone((tuple(inputs), kwargs))
    try:
        return fn(*inputs, **kwargs)
    except (Unavailable, InputError):
        raise
    except Exception as error:
        if promise := _torch.broken_promise(error):
            raise InputError(promise) from error
        said = f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
        if _torch.failed_compiling(error):
            compiler, why = _torch.cpp_compiler()
            advice = f"Inductor found no C++ compiler ({why})" if not compiler else said
            raise InputError(
                f"the compiler failed, not your function. {advice}. "
                "`python -m helpers doctor` says what is missing and how to get it"
            ) from error
        raise InputError(
            f"the function raised {said}. Call it yourself, uncompiled and with the "
            "same inputs, and make that work first"
        ) from error


def compile_apart(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return *fn* compiled, sharing no cache with other compiles of it.

    The copy has its own code object, so cache entries, the recompile limit and
    the mark "skip this frame" of the original are untouched.  Functions it calls
    keep theirs: from torch 2.13 they are kept apart too (isolate_recompiles).
    """
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        options["isolate_recompiles"] = True
    return torch.compile(fresh_code(_torch.unwrap(fn)), **options)


def fresh_code(fn: Any) -> Any:
    """Return a copy of *fn* with a code object of its own, the rest shared."""
    if isinstance(fn, torch.nn.Module):
        twin = object.__new__(type(fn))  # copy.copy refuses a parametrized module
        vars(twin).update(vars(fn), _compiled_call_impl=None)
        if inspect.ismethod(fn.forward):
            function = fresh_code(fn.forward.__func__)
            vars(twin)["forward"] = types.MethodType(function, twin)
        return twin
    if inspect.ismethod(fn):
        return types.MethodType(fresh_code(fn.__func__), fn.__self__)
    if not isinstance(fn, types.FunctionType):
        return fn
    code, scope = fn.__code__.replace(), fn.__globals__
    new = types.FunctionType(code, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__kwdefaults__ = fn.__kwdefaults__
    new.__qualname__, new.__module__ = fn.__qualname__, fn.__module__
    vars(new).update(vars(fn))
    return new


def inductor(
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Callable[..., Any]:
    """Return Inductor as a back end of its own, which never reads a cached graph.

    Raises ValueError for a mode or an option that Inductor does not know.
    """
    if mode and options:
        raise ValueError("give mode or options, not both (torch.compile wants one)")
    # This bypasses the cache of AOTAutograd as well.  It stands in the options and not
    # around the call: the backward may be lowered later, on another thread.
    options = {**(options or {}), "fx_graph_cache": False}
    try:
        wrapper = _TorchCompileInductorWrapper(mode, options, dynamic)
    except RuntimeError as error:
        said = str(error).split(", known options are")[0]
        raise ValueError(f"{said}. {_MODES}") from None
    return lambda graph, inputs, **_: wrapper(graph, inputs)


_MODES = (
    "A mode is one of default, reduce-overhead, max-autotune and "
    "max-autotune-no-cudagraphs; options are Inductor's, such as max_autotune"
)


def both_ways(
    fn: Callable[..., Any],
    backward: bool | None,
    seed: Callable[..., Any] = torch.ones_like,
) -> Callable[..., None]:
    """Return a function that runs *fn* and, if asked or needed, its backward."""

    def run(*inputs: Any) -> None:
        leaves = pytree.tree_leaves(fn(*inputs))
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        if not tensors:
            raise InputError(
                "the function returns no tensor: return what it computes, or the "
                "compiler has nothing to compute"
            )
        roots = [t for t in tensors if t.requires_grad]
        if backward and not roots:
            raise InputError(
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
