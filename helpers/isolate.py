"""Run a function through the compiler without a trace in the reader's session.

What is already compiled stays compiled, no recompile limit is used up, and the
reader's tensors, modules and random state are what they were.
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
from typing import Any

import torch

from helpers import compat
from helpers.held import kept


class InputError(ValueError):
    """What was asked cannot be answered with this function or these inputs."""


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
    counters, history = compat.private("counters"), compat.private("history")
    pgo = compat.private("learned")
    warned = getattr(compat.private("dynamo"), "warn_once_cache", set())
    names = ("_CODE_STATE", "_INIT_CODE_STATE")
    learned = {name: getattr(pgo, name, None) for name in names}
    kept = copy.deepcopy(counters), list(history), set(warned)
    pgo._CODE_STATE = defaultdict(compat.private("shape memory"))
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
    codes, forget = compat.private("codes"), compat.private("forget")
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


def clone_inputs(inputs: Any) -> Any:
    """Return *inputs* with each tensor copied: strides, leaves, aliases and marks."""
    clone, copies = compat.private("clone"), dict[int, torch.Tensor]()

    def once(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and id(value) not in copies:
            copies[id(value)] = clone(value)
            compat.copy_marks(value, copies[id(value)])
        return copies.get(id(value), value)

    return compat.private("trees").tree_map(once, inputs)


def check_callable(fn: Any, inputs: tuple[Any, ...]) -> None:
    """Raise InputError unless *fn* can be called and *inputs* share one device."""
    if not callable(fn):
        raise InputError(
            f"the first argument must be a function or a module, not {fn!r:.60}: "
            "pass f and its inputs, as in graphs(f, x), not the result f(x)"
        )
    leaves = [
        v
        for v in compat.private("trees").tree_leaves(inputs)
        if isinstance(v, torch.Tensor)
    ]
    tensors = [t for t in leaves if t.dim()]  # a CPU scalar may go with any device
    devices = sorted({str(t.device) for t in tensors})
    if len(devices) > 1:
        raise InputError(
            f"the inputs are on {' and '.join(devices)}: move them to one device "
            "with x.to(device)"
        )


def on_gpu(inputs: Any) -> bool:
    """Return whether a tensor of *inputs* is on a GPU."""
    leaves = compat.private("trees").tree_leaves(inputs)
    return any(isinstance(v, torch.Tensor) and v.is_cuda for v in leaves)


def call(fn: Callable[..., Any], inputs: Any, kwargs: dict[str, Any]) -> Any:
    """Return ``fn(*inputs, **kwargs)`` on copies of the tensors.

    Raises InputError when *fn* itself raises, with its message.
    """
    inputs, kwargs = clone_inputs((tuple(inputs), kwargs))
    try:
        return fn(*inputs, **kwargs)
    except (compat.Unavailable, InputError):
        raise
    except Exception as error:
        if promise := compat.broken_promise(error):
            raise InputError(promise) from error
        said = f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
        if compat.failed_compiling(error):
            compiler, why = compat.cpp_compiler()
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
    return torch.compile(fresh_code(compat.unwrap(fn)), **options)


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
        wrapper = compat.private("mode")(mode, options, dynamic)
    except RuntimeError as error:
        said = str(error).split(", known options are")[0]
        raise ValueError(f"{said}. {_MODES}") from None
    return lambda graph, inputs, **_: wrapper(graph, inputs)


_MODES = (
    "A mode is one of default, reduce-overhead, max-autotune and "
    "max-autotune-no-cudagraphs; options are Inductor's, such as max_autotune"
)
