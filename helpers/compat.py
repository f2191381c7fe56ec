"""The one place where the course names what torch does not promise.

`torch.compile` tells what it did through private modules, which move between
versions.  `NAMES` lists all that the course uses, `private` looks one up when it
is needed, and a missing one raises `Unavailable`, which says what is lost.
Written for torch 2.11 to 2.15.

    private(key)         the object behind a key of NAMES; missing() lists the absent
    trace()              the compiler's structured log (what tlparse reads), as Events
    Watch                compiles, reasons, graphs, breaks of a region; free while
                         nothing compiles: read watch.compiles after each block
    unwrap, is_compiled  what torch.compile was given; captured: and it made a graph
    fresh_caches()       empty Inductor and Triton caches, for an honest cold start
    cpp_compiler(), triton_pair(), has_triton_gpu(), inductor_cache_dir()
"""

from __future__ import annotations

import contextlib
import copy
import logging
import re
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from typing import Any, NamedTuple

import torch

from helpers import advice
from helpers.results import version_of

# Key: module and name below torch, and what the course loses without it.
NAMES = {
    "counters": ("_dynamo.utils:counters", "graph breaks in a timed region"),
    "history": ("_dynamo.utils:_compilation_metrics", "seeing a recompile"),
    "dynamo": ("_dynamo.utils", "keeping the compiler's state as it was"),
    "codes": ("_dynamo.convert_frame:input_codes", "leaving functions as they were"),
    "forget": ("_dynamo.eval_frame:reset_code", "leaving functions as they were"),
    "cached": ("_dynamo.eval_frame:_debug_get_cache_entry_list", "proof of a compile"),
    "clone": ("_dynamo.utils:clone_input", "running on copies of your tensors"),
    "learned": ("_dynamo.pgo", "keeping what torch learned about dynamic shapes"),
    "shape memory": ("_dynamo.pgo:CodeState", "forgetting dynamic shapes"),
    "mode": (":_TorchCompileInductorWrapper", "compiling with a mode or options"),
    "C++": ("_inductor.codegen.cpp:CppScheduling", "the C++ kernels"),
    "Triton": ("_inductor.codegen.triton:TritonScheduling", "the Triton kernels"),
    "scheduler": ("_inductor.scheduler:Scheduler", "the library calls"),
    "lowered": ("_inductor.virtualized:V", "the phase and bytes of a kernel"),
    "compiler": ("_inductor.cpp_builder:get_cpp_compiler", "the compiler's name"),
    "cache": ("_inductor.runtime.runtime_utils:cache_dir", "the cache folder"),
    "fresh cache": ("_inductor.utils:fresh_cache", "an honest cold start"),
    "trees": ("utils._pytree", "inputs in lists and dicts"),
    "dispatch": ("utils._python_dispatch:TorchDispatchMode", "the bytes of eager"),
    "has triton": ("utils._triton:has_triton", "knowing whether Triton works"),
}

# Which Triton the builds want that name none: the CPU wheels.
_TRITON = {"2.11": "3.6", "2.12": "3.7", "2.13": "3.7", "2.14": "3.8", "2.15": "3.9"}


class Unavailable(RuntimeError):
    """This torch lacks a private name that a helper needs."""


def private(key: str) -> Any:
    """Return the private object that ``NAMES`` lists under *key*.

    Raises Unavailable when this version of torch has no such name.
    """
    name, lost = NAMES[key]
    module, _, attribute = name.partition(":")
    try:
        found = import_module(f"torch.{module}".rstrip("."))
        return getattr(found, attribute) if attribute else found
    except (ImportError, AttributeError):
        name = name.replace(":", ".").lstrip(".")
        raise Unavailable(
            f"torch {torch.__version__} has no torch.{name}, so the course loses: "
            f"{lost}. Use torch 2.13, the version it is written for."
        ) from None


def missing() -> dict[str, str]:
    """Return the private names this torch lacks, each with what is lost."""
    absent = {}
    for key, (name, lost) in NAMES.items():
        try:
            private(key)
        except Unavailable:
            absent[name] = lost
    return absent


class Event(NamedTuple):
    """One record of the structured log: its kind and its text."""

    kind: str
    payload: str


def _event(record: Any) -> Event:
    meta = getattr(record, "metadata", None) or {}
    kind = next(iter(meta), "")
    kind = meta[kind].get("name", "") if kind == "artifact" else kind
    return Event(kind, str(getattr(record, "payload", None) or ""))


@contextlib.contextmanager
def trace() -> Iterator[list[Event]]:
    """Collect what the compiler writes to its structured log inside the block.

    Yields a list that fills while the block runs; it costs nothing while nothing
    compiles.  Handlers and level of the logger are put back afterwards.
    """
    log = logging.getLogger("torch.__trace")
    handlers, level, events = log.handlers[:], log.level, list[Event]()
    collector = logging.Handler()
    collector.emit = lambda record: events.append(_event(record))
    log.addHandler(collector)
    log.setLevel(logging.DEBUG)
    try:
        yield events
    finally:
        # All: torch's own handler removes itself when it has no folder to write to.
        log.handlers[:] = handlers
        log.setLevel(level)


class Compile(NamedTuple):
    """A compile: function, reason, and ``forward``, ``backward`` or ``skipped``."""

    name: str
    reason: str
    kind: str


class Watch:
    """What the compiler did inside a ``with`` block, to be read during and after.

    Reads torch's own history of compiles, so nothing is installed.  torch keeps
    the last 64; of more than that, 64 are counted."""

    def __enter__(self) -> Watch:
        self._last = [*private("history")][-1:]
        self._before = copy.deepcopy(private("counters"))
        self._end: tuple[list[Any], Any] | None = None
        return self

    def __exit__(self, *exc: object) -> None:
        self._end = self._new(), copy.deepcopy(private("counters"))

    def _new(self) -> list[Any]:
        if self._end:
            return self._end[0]
        found: list[Any] = []
        for record in reversed(private("history")):
            if self._last and record is self._last[0]:
                break
            found.insert(0, record)
        return found

    def _grown(self, group: str) -> dict[str, int]:
        now = (self._end[1] if self._end else private("counters"))[group]
        before = self._before[group]
        return {k: n - before[k] for k, n in now.items() if n > before[k]}

    @property
    def events(self) -> tuple[Compile, ...]:
        """The compiles so far, each with torch's reason ('' for a first one)."""
        found = []
        for record in self._new():
            if not record.is_runtime and not _at_limit(record.fail_reason):
                kind = "backward" if record.is_forward is False else "forward"
                kind = "skipped" if record.fail_type else kind
                name = advice.original_name(record.co_name or "")
                found.append(Compile(name, advice.short(record.recompile_reason), kind))
        return tuple(found)

    @property
    def compiles(self) -> int:
        """How many compiles so far; cheap enough to read between two blocks."""
        return len(self.events)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it recompiled, each reason once."""
        return tuple(dict.fromkeys(e.reason for e in self.events if e.reason))

    @property
    def graphs(self) -> int:
        """How many graphs were captured: 0 means that nothing was."""
        return self._grown("stats").get("unique_graphs", 0)

    @property
    def break_reasons(self) -> tuple[str, ...]:
        """The first line of the reason of each kind of graph break."""
        seen = {**self._grown("graph_break"), **self._grown("unimplemented")}
        return tuple(text.split("\n")[0] for text in seen if not _at_limit(text))

    @property
    def graph_breaks(self) -> int:
        """How many kinds of graph break were seen; graphs() shows each of them."""
        return len(self.break_reasons)

    @property
    def limit_hit(self) -> bool:
        """Whether the recompile limit was hit: new inputs run eagerly since."""
        return any(_at_limit(record.fail_reason) for record in self._new())

    @property
    def ignored(self) -> tuple[str, ...]:
        """Why CUDA graphs that the mode asked for were not used, if so."""
        reasons = [record.cudagraph_skip_reason for record in self._new()]
        if not any(reasons) and self._grown("inductor").get("cudagraph_skips"):
            reasons = ["CUDA graphs need tensors on an NVIDIA GPU"]
        return tuple(dict.fromkeys(filter(None, reasons)))

    @property
    def recordings(self) -> int:
        """How many CUDA graphs were recorded."""
        return sum(bool(r.runtime_cudagraphify_time_us) for r in self._new())


def _at_limit(text: str | None) -> bool:
    return bool(text) and "recompile limit exceeded" in text


def unwrap(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function or module that was given to ``torch.compile``."""
    while not getattr(fn, "_torchdynamo_disable", False):
        names = ("_orig_mod", "_torchdynamo_orig_callable")
        inner = next((getattr(fn, n) for n in names if hasattr(fn, n)), None)
        if inner is None:
            break
        fn = inner
    return fn


def is_compiled(fn: Callable[..., Any]) -> bool:
    """Return whether *fn* went through ``torch.compile`` or ``module.compile``."""
    return unwrap(fn) is not fn or bool(getattr(fn, "_compiled_call_impl", None))


def captured(fn: Callable[..., Any]) -> bool:
    """Return whether *fn* was compiled, called, and at least one graph captured.

    torch keeps its cache by code object, so other users of the same code count.
    """
    inner = unwrap(fn)
    parts = inner.modules() if isinstance(inner, torch.nn.Module) else ()
    targets = [unwrap(getattr(each, "forward", each)) for each in (inner, fn, *parts)]
    return is_compiled(fn) and any(map(_calls_graph, targets))


def _calls_graph(target: Any) -> bool:
    code, scope = getattr(target, "__code__", None), getattr(target, "__globals__", {})
    entries = private("cached")(code) if code else []
    names = [name for entry in entries for name in entry.code.co_names]
    graph = any(name.startswith("__compiled_fn") for name in names)
    resumed = [scope.get(name) for name in names if name.startswith("__resume")]
    return graph or any(map(_calls_graph, resumed))


def failed_compiling(error: BaseException) -> bool:
    """Return whether *error* comes from the compiler and not from the function."""
    kind = type(error)  # a TorchRuntimeError was raised in the function
    return kind.__module__[:7] == "torch._" and kind.__name__ != "TorchRuntimeError"


def fresh_caches() -> contextlib.AbstractContextManager[None]:
    """Return a context with empty Inductor and Triton caches, deleted after it."""
    return private("fresh cache")()


def inductor_cache_dir() -> str:
    """Return the folder where Inductor keeps what it generated."""
    return private("cache")()


def cpp_compiler() -> tuple[str | None, str]:
    """Return the C++ compiler Inductor uses and '', or None and the reason."""
    try:
        return private("compiler")(), ""
    except Exception as error:  # torch raises its own kinds, which differ by version
        return None, str(error).split("\n")[0] or type(error).__name__


def triton_pair() -> tuple[str | None, str | None, bool]:
    """Return the Triton this torch wants, the one installed, whether they match."""
    needs = "\n".join(metadata.requires("torch") or ())
    pinned = re.search(r"triton\s*\(?(?:==\s*([\d.]+)|~=\s*([\d.]+)\.\d+)", needs)
    wanted = pinned[1] or pinned[2] if pinned else _TRITON.get(torch.__version__[:4])
    installed = version_of("triton") or version_of("triton-windows")
    match = bool(wanted and installed and f"{installed}.".startswith(f"{wanted}."))
    return wanted, installed, match


def has_triton_gpu() -> bool:
    """Return whether Triton can compile for a GPU of this machine."""
    return torch.cuda.is_available() and bool(private("has triton")())
