"""Run a function through the compiler without a trace in the caller's session.

What is already compiled stays compiled, no recompile limit is used up, and the
caller's tensors, modules and random state are what they were: inside `undisturbed`,
`call` runs what `compile_apart` made.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import random
import re
import sys
import types
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from typing import Any
from unittest import mock

import numpy as np
import torch

from . import _torch, frames
from ._torch import needed_for
from .errors import CompiledRaises, InputError, Unavailable, one_line
from .tensors import CONTAINERS, Trail, clone, found, tensors

with needed_for("leaving the session as it was"):
    from torch._dynamo import external_utils, pgo
    from torch._dynamo.convert_frame import input_codes
    from torch._dynamo.eval_frame import cached_backends, reset_code
    from torch._dynamo.utils import warn_once_cache

with needed_for("compiling with a mode or options"):
    from torch import _TorchCompileInductorWrapper


_NAMESPACE = "__builtins__"  # in a file's globals, where the compiler writes too


class restored:
    """Put back, after a block, what calls changed in what *objects* hold.

    *objects* are functions, modules, optimizers, inputs.  Put back are the attributes,
    parameters, gradients and buffers of modules, groups and state of optimizers, and
    the tensors, lists, dictionaries, numbers and generators of random numbers in
    closures, in the globals that the code names, behind ``self``, in a ``partial``, in
    classes of the same file and in any plain object, such as a key-value cache.  Not
    put back is what other files hold in their globals and classes.

    The state to go back to is that of the construction.  Where a context is entered
    many times, construct it once: then a block that changed nothing costs one look at
    each object and one comparison of each tensor.  Nothing that did not change is
    written, for the compiler's guards look at the same objects.
    """

    def __init__(self, *objects: Any) -> None:
        # An object, the name of an attribute, and its value.
        self._attributes: list[tuple[Any, str, Any]] = []
        self._globals, self._generators = [], []
        # A list, set or dictionary, and what is in it.
        self.tables: list[tuple[Any, Any]] = []
        # A tensor, the memory it has, and a copy of what stands there.
        self.values: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        homes = _homes(objects)
        for _, item in _found(dict(enumerate(objects))):
            if isinstance(item, types.CellType):
                held = _in_cell(item)
                self._attributes += [(item, "cell_contents", one) for one in held]
            elif isinstance(item, types.FunctionType):
                scope, names = item.__globals__, _global_names(item, homes)
                self._globals += [(scope, name, scope[name]) for name in names]
            elif isinstance(item, type):
                self._attributes += [(item, *pair) for pair in _of_class(item, homes)]
            elif isinstance(item, dict) and _NAMESPACE not in item:
                # Not dict(item): a registry may build what it is asked for.
                self.tables.append((item, dict(item.items())))
            elif isinstance(item, (list, set, deque)):
                self.tables.append((item, list(item)))
            elif isinstance(item, torch.Generator):
                self._generators.append((item.set_state, item.get_state()))
            elif isinstance(item, random.Random):
                self._generators.append((item.setstate, item.getstate()))
            elif isinstance(item, torch.Tensor):
                if item.is_leaf:
                    self._attributes.append((item, "grad", item.grad))
                if has_values(item):
                    memory = item.detach()
                    self.values.append((item, memory, memory.clone()))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        for scope, name, before in self._globals:
            if scope.get(name) is not before:
                scope[name] = before
        for table, before in self.tables:
            if _ids(table) != _ids(before):
                table.clear()
                (table.extend if hasattr(table, "extend") else table.update)(before)
        for put_back, state in self._generators:
            put_back(state)
        for tensor, memory, value in self.values:
            form = tensor.data_ptr(), tensor.shape, tensor.dtype
            if form != (memory.data_ptr(), memory.shape, memory.dtype):
                tensor.data = memory
            if not torch.equal(memory, value):
                with torch.inference_mode(memory.is_inference()):
                    memory.data.copy_(value)  # .data: for autograd it is no write
        # Last, as a gradient must have the shape of its tensor.
        for owner, name, before in self._attributes:
            cell = isinstance(owner, types.CellType)  # which may be empty now
            if cell or getattr(owner, name, None) is not before:
                setattr(owner, name, before)


def tensors_of(*objects: Any) -> list[torch.Tensor]:
    """Return the tensors that functions, optimizers and inputs hold, gradients too."""
    held = _found(dict(enumerate(objects)))
    return [item for _, item in held if isinstance(item, torch.Tensor)]


_REGISTERS = ("_parameters", "_buffers", "_modules", "forward")
"""Where a module keeps its tensors and parts, which are named as its attributes are.

What a forward reaches is named alike where it is the class's and where it is its own.
"""


def placed(roots: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield all that the *roots* hold, each once, with the place it is found first.

    A place is the name of a root, and what leads on from there: ``.layers.0.weight``,
    ``['rows'][3]``, ``.grad``.
    """
    for trail, item in _found(roots):
        ways = []
        while trail:
            trail, way = trail
            ways.append(way)
        yield reduce(_on, ways[::-1]).removesuffix("."), item


_TEXT = (str, bytes, int, float, complex, type(None), torch.dtype, torch.device)
_OF_TORCH = {*vars(torch.nn.Module()), "_compiled_call_impl"} - {"training"}
_OF_TORCH |= {"_is_torch_compile"}
"""What torch itself keeps in each module: parameters, hooks and more."""


def plain_state(roots: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers and texts that the *roots* hold, by place, and what has some.

    They stand in attributes, cells, globals and classes; a list, a dictionary or a set
    has all of its own, in their order.  What torch keeps in its modules is left out.
    """
    homes, state = _homes(tuple(roots.values())), dict[str, Any]()
    told = set[int]()  # tables whose parts are told one by one, or not at all
    for place, item in placed(roots):
        if isinstance(item, (list, deque, set, dict)):
            made_here = isinstance(item, dict) and item.keys() <= {*_REGISTERS}
            if id(item) not in told and not made_here:
                state[place] = _plain_in(item)
            continue
        told.add(id(getattr(item, "__dict__", None)))
        if isinstance(item, torch.fx.GraphModule):
            told |= {*map(id, vars(item).values())}  # a compiler writes to it
        elif isinstance(item, torch.nn.Module):
            told |= {id(vars(item).get(name)) for name in _OF_TORCH}
        names = _named_in(item, homes)
        state |= {f"{place}{n}": one for n, one in names if _is_plain(one)}
    return state


def _named_in(item: Any, homes: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield what attributes, cells, globals and classes hold, each with its name."""
    if isinstance(item, (types.CellType, type)):
        yield from _inside(item, homes)
    elif isinstance(item, types.FunctionType):
        names = sorted(_global_names(item, homes))
        yield from ((f".{name}", item.__globals__[name]) for name in names)
    elif not isinstance(item, _NAMELESS) and not _is_tool(item):
        left_out = _OF_TORCH if isinstance(item, torch.nn.Module) else ()
        named = getattr(item, "__dict__", {}).items()
        yield from ((f".{name}", one) for name, one in named if name not in left_out)


_NAMELESS = types.MethodType, types.BuiltinMethodType, partial, torch.Tensor
_NAMELESS += (torch.fx.GraphModule, torch._dynamo.OptimizedModule)


def _is_plain(item: Any) -> bool:
    if isinstance(item, tuple):
        return all(map(_is_plain, item))
    return isinstance(item, _TEXT)


def _plain_in(table: Any) -> Any:
    """Return the numbers and texts in a list, a set or a dictionary, in their order."""
    if isinstance(table, dict):
        items = [(k, v) for k, v in table.items() if _is_plain(k)]
        return {k: v if _is_plain(v) else type(v).__name__ for k, v in items}
    plain = [one for one in table if _is_plain(one)]
    return sorted(plain, key=repr) if isinstance(table, set) else plain


def _found(roots: Mapping[Any, Any]) -> Iterator[tuple[Trail, Any]]:
    """Yield all that the *roots* hold, each once, with the trail that leads there."""
    homes = _homes(tuple(roots.values()))
    return found(roots, lambda item: _inside(item, homes))


def _on(place: str, way: str) -> str:
    """Return the place that is one step on; the names of attributes follow a dot."""
    if not place.endswith("."):
        return place + way
    name = re.fullmatch(r"\['(\w+)'\]", way)
    if not name:
        return place.removesuffix(".") + way
    return place if name[1] in _REGISTERS else f"{place}{name[1]}"


def _inside(item: Any, homes: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, and the way from it to there.

    The table of attributes is a dot away, and its parts have the names of keys.
    """
    if isinstance(item, types.FunctionType):
        yield from ((".", vars(item)), ("", item.__defaults__))
        yield "", item.__kwdefaults__
        for name, cell in zip(
            item.__code__.co_freevars, item.__closure__ or (), strict=True
        ):
            yield f".{name}", cell
        for name in sorted(_global_names(item, homes)):
            yield f".{name}", item.__globals__[name]
    elif isinstance(item, types.CellType):
        yield from (("", value) for value in _in_cell(item))
    elif isinstance(item, (types.MethodType, types.BuiltinMethodType)):
        yield "", item.__self__
        yield "", getattr(item, "__func__", None)
    elif isinstance(item, partial):
        yield from (("", item.func), ("", item.args), ("", item.keywords))
    elif isinstance(item, torch.Tensor):
        yield ".grad", item.grad if item.is_leaf else None
    elif isinstance(item, dict) and _NAMESPACE not in item:
        yield from (("", key) for key in item)  # an optimizer has tensors for keys
        for position, (key, value) in enumerate(item.items()):
            plain = isinstance(key, (str, int, float))
            yield f"[{key!r}]" if plain else f"[{position}]", value
    elif isinstance(item, torch._dynamo.OptimizedModule):
        yield "", item._orig_mod
    elif isinstance(item, torch.nn.Module):
        inside = vars(item)  # what is a part first, then who else knows it: a hook
        yield ".", {name: inside[name] for name in _REGISTERS if name in inside}
        yield ".", inside
        yield "", item.forward
        yield "", type(item)
    elif isinstance(item, CONTAINERS):
        yield from ((f"[{position}]", one) for position, one in enumerate(item))
    elif isinstance(item, type):
        yield from ((f".{name}", one) for name, one in _of_class(item, homes))
        own = id(vars(sys.modules.get(item.__module__, types))) in homes
        inside = vars(item).values() if own else ()
        yield from (("", fn) for fn in inside if isinstance(fn, types.FunctionType))
        yield from (("", base) for base in item.__bases__)
    elif hasattr(item, "__dict__") and not _is_tool(item):
        yield ".", vars(item)
        yield "", type(item)


def _homes(objects: tuple[Any, ...]) -> set[int]:
    """Return the ids of the globals of the files that the given functions stand in."""
    homes = set()
    for item in filter(callable, objects):
        fn = _torch.unwrap(item)
        while isinstance(fn, partial):
            fn = _torch.unwrap(fn.func)
        fn = inspect.unwrap(getattr(fn, "forward", fn))
        homes.add(id(getattr(fn, "__globals__", None)))
    return homes


def _global_names(fn: types.FunctionType, homes: set[int]) -> set[str]:
    """Return the globals of *homes* that *fn*, or a function inside it, names."""
    names, codes = set[str](), [fn.__code__]
    for code in codes:
        names.update(code.co_names)  # of globals, and of attributes
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return names & fn.__globals__.keys() if id(fn.__globals__) in homes else set()


def _of_class(owner: type, homes: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield what a class of *homes* holds for all its objects, methods aside."""
    if id(vars(sys.modules.get(owner.__module__, types))) in homes:
        for name, value in vars(owner).items():
            if not (name.startswith("__") or hasattr(value, "__get__")):
                yield name, value


def _in_cell(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing is in it yet
        return []


def _is_tool(item: Any) -> bool:
    """Return whether an object is a tool's, and not the caller's or a model's.

    Behind a logger or a notebook's shell lies the whole session.
    """
    module = type(item).__module__ or ""
    package = module.partition(".")[0]
    tools = {"IPython", "ipykernel", "ipywidgets", "matplotlib", "tqdm", "traitlets"}
    standard = package in sys.stdlib_module_names and module != "types"
    private = module.startswith("torch._") or package in tools
    return standard or private or isinstance(item, (type, types.ModuleType))


def _ids(table: Any) -> list[int]:
    """Return the ids of all that a table holds, in order."""
    values = table.values() if isinstance(table, dict) else ()
    return [*map(id, (*table, *values))]


def has_values(t: torch.Tensor) -> bool:
    """Return whether *t* has values in memory that can be compared and copied."""
    lazy = isinstance(t, torch.nn.parameter.UninitializedTensorMixin)
    plain = type(t).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    return plain and t.layout is torch.strided and not t.is_meta and not lazy


@contextlib.contextmanager
def undisturbed(fn: Callable[..., Any] | None = None) -> Iterator[None]:
    """Run the block, then put the session back, also after an exception.

    Put back: random state (torch, Python, NumPy), grad mode, stance, the
    compiler's counters and history, what it learned about dynamic shapes (which
    is empty inside the block), and what *fn* holds (see `restored`).  Warnings of the
    compiler are silent inside.
    """
    with (
        _compiler_state(),
        random_state(),
        restored(fn),
        torch.set_grad_enabled(torch.is_grad_enabled()),
        torch.compiler.set_stance("default"),
        _silent(),
    ):
        yield


@contextlib.contextmanager
def _compiler_state() -> Iterator[None]:
    tables = _torch.counters, _torch.compile_history, warn_once_cache
    before = copy.deepcopy(_torch.counters), *map(copy.copy, tables[1:])
    # What sizes were seen to change, in this process and in one before.
    try:
        with (
            mock.patch.object(pgo, "_CODE_STATE", defaultdict(pgo.CodeState)),
            mock.patch.object(pgo, "_INIT_CODE_STATE", pgo._INIT_CODE_STATE),
            mock.patch.dict(cached_backends),  # each would stay, with what it holds
            _new_codes_forgotten(),
        ):
            yield
    finally:
        for table, saved in zip(tables, before, strict=True):
            table.clear()
            (table.extend if isinstance(table, deque) else table.update)(saved)


@contextlib.contextmanager
def _new_codes_forgotten() -> Iterator[None]:
    """Drop what is compiled, or marked as not to be, for the first time in the block.

    That is the functions *fn* calls; those the caller compiled before keep theirs.
    """
    known = set(input_codes.seen_ids)
    try:
        yield
    finally:
        # Held here, so that none dies, and calls back, before it left the register.
        codes = [code for ref in input_codes.seen if (code := ref()) is not None]
        new = {id(code): code for code in codes if id(code) not in known}
        input_codes.seen[:] = [ref for ref in input_codes.seen if id(ref()) not in new]
        input_codes.seen_ids -= set(new)
        for code in new.values():
            reset_code(code)


@contextlib.contextmanager
def random_state() -> Iterator[None]:
    """Put back the state of random numbers: of torch, Python and NumPy."""
    python, numpy = random.getstate(), np.random.get_state()
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices=gpus):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    def no_warning(record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING

    with contextlib.ExitStack() as stack:
        for handler in torch_handlers():
            handler.addFilter(no_warning)
            stack.callback(handler.removeFilter, no_warning)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


class InPieces:
    """A function that compiles pieces of itself, to be looked at as it is.

    `compile_apart` does not compile the whole: a backend gets what the pieces capture,
    and *made_with* makes it anew with other options of ``torch.compile``.
    """

    __slots__ = ("__dict__", "_made_with")  # who makes it is no part of its state

    def __init__(
        self, fn: Callable[..., Any], made_with: Callable[..., Callable[..., Any]]
    ) -> None:
        self.fn, self._made_with = fn, made_with
        self.forward = getattr(fn, "forward", fn)  # its signature, and where it stands

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.fn(*inputs, **kwargs)

    def compiled(self, backend: Any = None, **options: Any) -> Callable[..., Any]:
        """Return it with all that it compiles given to *backend*, if there is one."""
        options = {name: one for name, one in options.items() if one is not None}
        fn = self._made_with(**options) if options else self.fn
        if backend is None:
            return fn
        torch.compiler.reset()  # pieces keep their code objects, and what is compiled
        return given_to(fn, backend)


def pieces_of(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of what *fn* has compiled inside: blocks, functions it calls."""
    found = [
        place.lstrip(".") or "forward"
        for place, item in placed({"": fn})
        if callable(item) and not place.endswith("._compiled_call_impl")
        if _torch.is_compiled(item)
    ]
    return tuple(dict.fromkeys(found))


def given_to(fn: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """Return *fn* with what is compiled inside given to *backend*."""

    def run(*inputs: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("default", force_backend=backend):
            return fn(*inputs, **kwargs)

    run._orig_mod = fn  # by which `unwrap` finds it
    return run


def torch_handlers() -> set[logging.Handler]:
    """Return what handles the records of torch's loggers."""
    names = [n for n in logging.root.manager.loggerDict if n.split(".")[0] == "torch"]
    return {h for name in names for h in logging.getLogger(name).handlers}


def compile_apart(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return *fn* compiled, sharing no cache with other compiles of it.

    The copy has its own code object, so cache entries, the recompile limit and the mark
    "skip this frame" of the original are untouched.  Functions it calls, and a module
    that knows itself, keep theirs, and are kept apart too (isolate_recompiles).
    """
    if isinstance(fn, InPieces):
        return fn.compiled(**options)
    fn = fresh_code(_torch.unwrap(fn))
    # Torch's own modules run in a wrapper, whose code all of them share.
    wrap = external_utils.wrap_inline
    with mock.patch.object(
        external_utils, "wrap_inline", lambda f: fresh_code(wrap(f))
    ):
        return torch.compile(fn, isolate_recompiles=True, **options)


def uncompiled(fn: Any) -> Any:
    """Return the function given to ``torch.compile``, eager but for what is inside."""
    fn = _torch.unwrap(fn)
    if isinstance(fn, torch.nn.Module):
        fn._compiled_call_impl = None  # of module.compile()
    return fn


def fresh_code(fn: Any) -> Any:
    """Return a copy of *fn* with its own code object; of what knows itself, *fn*."""
    if isinstance(fn, torch.nn.Module):
        held = vars(fn) | dict.fromkeys(("_compiled_call_impl", "forward", "_graph"))
        if any(item is fn for _, item in _found(held)):
            return fn  # a hook or a part knows it: a copy would not see what that sets
        module = object.__new__(type(fn))  # copy.copy refuses a parametrized module
        vars(module).update(vars(fn), _compiled_call_impl=None)
        if inspect.ismethod(fn.forward):
            function = fresh_code(fn.forward.__func__)
            vars(module)["forward"] = types.MethodType(function, module)
        return module
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
    """Return Inductor as a back end that never reads a cached graph.

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
        raise ValueError(
            f"{str(error).split(', known options are')[0]}. A mode is one of default, "
            "reduce-overhead, max-autotune and max-autotune-no-cudagraphs; options are "
            "Inductor's, such as max_autotune"
        ) from None
    return lambda graph, inputs, **_: wrapper(graph, inputs)


def check_callable(fn: Any, inputs: Any) -> None:
    """Raise InputError unless *fn* can be called and *inputs* share one device."""
    if not callable(fn):
        raise InputError(
            f"the first argument must be a function or a module, not {fn!r:.60}: "
            "pass f and its inputs, as in graphs(f, x), not the result f(x)"
        )
    if one_device(inputs).type == "meta" or any(t.is_meta for t in tensors(fn)):
        raise InputError(
            "tensors on the device meta hold no numbers, so nothing can be run: give "
            "the module memory with module.to_empty(device='cpu') and weights"
        )


def one_device(inputs: Any) -> torch.device:
    """Return the device of *inputs*, scalars aside; InputError if there are several."""
    devices = {t.device for t in tensors(inputs) if t.dim()} or {torch.device("cpu")}
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise InputError(
            f"inputs and parameters are on {names}: move them to one device "
            "with .to(device)"
        )
    return devices.pop()


def call(fn: Callable[..., Any], inputs: Any, kwargs: dict[str, Any]) -> Any:
    """Return ``fn(*inputs, **kwargs)`` on copies of the tensors.

    Raises InputError when *fn* itself raises, with its message, and CompiledRaises
    where it runs eagerly.
    """
    given = tuple(inputs), dict(kwargs)
    inputs, kwargs = clone(given)
    try:
        return fn(*inputs, **kwargs)
    except (Unavailable, InputError):
        raise
    except Exception as error:
        if promise := _torch.broken_promise(error):
            raise CompiledRaises(promise) from error
        message, kind = one_line(error), type(error).__name__
        if kind in ("Unsupported", "UncapturedHigherOrderOpError"):
            by = "fullgraph=True" if kind == "Unsupported" else "an operator"
            said = f"a graph break, forbidden by {by}, {frames.line_in(str(error))}"
            raise CompiledRaises(f"{said}: {message}") from error
        # Of what a function raises while it is traced, only eager tells.
        traced = kind == "TorchRuntimeError"
        if traced or not type(error).__module__.startswith("torch._"):
            if "no compiled frames" in message or _runs_eagerly(fn, given):
                raise CompiledRaises(
                    f"it runs eagerly, and raises only when it is compiled: {message}"
                ) from error
            raise InputError(
                f"the function raised {message}. Call it yourself, uncompiled and with "
                "the same inputs, and make that work first"
            ) from error
        compiler, why = _torch.cpp_compiler()
        if not compiler:
            message = f"Inductor found no C++ compiler ({why})"
        if kind != "InternalTorchDynamoError":
            message += f". `python -m {__package__} doctor` says what is missing and "
            message += "how to get it"
        raise (CompiledRaises if compiler else InputError)(
            f"the compiler failed, not your function. {message}"
        ) from error


def _runs_eagerly(fn: Callable[..., Any], given: tuple[Any, Any]) -> bool:
    """Return whether *fn* runs where nothing is compiled, also inside it."""
    inputs, kwargs = clone(given)
    with contextlib.suppress(Exception), torch.compiler.set_stance("force_eager"):
        _torch.unwrap(fn)(*inputs, **kwargs)
        return True
    return False


def both_ways(fn: Callable[..., Any], backward: bool | None) -> Callable[..., None]:
    """Return a function that runs *fn* and, if asked or needed, its backward.

    The backward starts with ones at every tensor in what *fn* returns that requires
    gradients.  What returns no tensor, such as a training step, only runs.
    """

    def run(*inputs: Any, **kwargs: Any) -> None:
        result = fn(*inputs, **kwargs)
        roots = [tensor for tensor in tensors(result) if tensor.requires_grad]
        if backward and not roots:
            raise InputError(
                "backward=True, but no output requires gradients: call "
                "x.requires_grad_() on an input first"
            )
        if roots and backward is not False:
            with _torch.without_modes():
                ones = [torch.ones_like(tensor) for tensor in roots]
            torch.autograd.grad(roots, _leaves(roots), ones, allow_unused=True)

    return run


def _leaves(roots: list[torch.Tensor]) -> list[Any]:
    """Return the leaf tensors whose gradients a backward from *roots* computes."""
    todo, seen, leaves = [t.grad_fn for t in roots], set(), []
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if hasattr(node, "variable"):
                leaves.append(node.variable)
            todo += [after for after, _ in node.next_functions]
    return leaves or roots
