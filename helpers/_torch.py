"""The private names of torch that several helpers need, and what is done with them.

`torch.compile` tells what it did through private modules, which move between
versions.  They are imported as what they are: those that several modules need here,
any other where it is used, and each below a line ``with needed_for("what is lost")``,
so that a version without the name says what is lost.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from traceback import FrameSummary
from typing import Any, NamedTuple

import torch

from .errors import Unavailable
from .results import version_of


@contextmanager
def needed_for(lost: str) -> Iterator[None]:
    """Turn a failed import of a private name inside the block into Unavailable.

    *lost* is what cannot be done without the name, for the message.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        raise Unavailable(
            f"torch {torch.__version__} lacks a private name ({error}). Without "
            f"it, this code loses: {lost}. Use torch 2.13 to 2.15."
        ) from error


with needed_for("seeing what the compiler did"):
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list
    from torch._dynamo.exc import collapse_resume_frames, get_stack_above_dynamo
    from torch._dynamo.utils import _compilation_metrics, compilation_time_metrics
    from torch._dynamo.utils import counters as counters
    from torch._guards import TracingContext
    from torch.utils._python_dispatch import _disable_current_modes

# torch's records of the compiles of this process, the last 64, the newest last.
compile_history = _compilation_metrics
# Seconds of what torch times by name, such as ``compile_file``: a list for each.
compile_seconds = compilation_time_metrics
without_modes = _disable_current_modes

# Which Triton the builds want that name none: the CPU wheels.
_TRITON = {"2.13": "3.7", "2.14": "3.8", "2.15": "3.9"}


class Event(NamedTuple):
    """One record of the structured log: its kind, its text, and for a graph break the
    stack from the program's first line to the one that breaks."""

    kind: str
    payload: str
    stack: tuple[FrameSummary, ...] = ()


def _event(record: Any) -> Event:
    meta = getattr(record, "metadata", None) or {}
    kind = next(iter(meta), "")
    kind = meta[kind].get("name", "") if kind == "artifact" else kind
    text = str(getattr(record, "payload", None) or "")
    if kind != "dynamo_graph_break_reason":
        return Event(kind, text)
    # torch logs a break while it handles the exception that it became, if it did.
    inside = getattr(sys.exc_info()[1], "real_stack", None)
    inside = inside or TracingContext.extract_stack()
    # What goes on after a break is called from its line; a forward calls others, too.
    above = collapse_resume_frames([*get_stack_above_dynamo(), *inside[:1]])
    return Event(kind, text, (*above, *inside[1:]))


@contextmanager
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


def has_graphs(fn: Callable[..., Any]) -> bool:
    """Return whether *fn* was compiled, called, and at least one graph captured.

    torch keeps its cache by code object, so other users of the same code count.
    """
    inner = unwrap(fn)
    modules = inner.modules() if isinstance(inner, torch.nn.Module) else ()
    targets = [unwrap(getattr(f, "forward", f)) for f in (inner, fn, *modules)]
    return is_compiled(fn) and any(map(_calls_graph, targets))


def _calls_graph(target: Any) -> bool:
    code, scope = getattr(target, "__code__", None), getattr(target, "__globals__", {})
    entries = _debug_get_cache_entry_list(code) if code else []
    names = [name for entry in entries for name in entry.code.co_names]
    graph = any(name.startswith("__compiled_fn") for name in names)
    resumed = [scope.get(name) for name in names if name.startswith("__resume")]
    return graph or any(map(_calls_graph, resumed))


def broken_promise(error: BaseException) -> str:
    """Return which promise of a marked size is broken, and what to do; else ''."""
    if type(error).__name__ != "ConstraintViolationError":
        return ""
    lines = str(error).strip().splitlines()
    reason = next((line for line in lines if line.lstrip()[:1] == "-"), lines[0])
    at = re.search(r"(line \d+, in \w+)\n\s*(.+)", str(error))
    said = reason.strip(" -") + (f" ({at[1]}: {at[2]})" if at else "")
    mend = "Take the mark (mark_dynamic) away, change its bounds, or mend that line"
    return f"a marked size does not keep its promise: {said}\n{mend}"


def inductor_cache_dir() -> str:
    """Return the folder where Inductor keeps what it generated."""
    with needed_for("the cache folder"):
        from torch._inductor.runtime.runtime_utils import cache_dir
    return cache_dir()


def cpp_compiler() -> tuple[str | None, str]:
    """Return the C++ compiler Inductor uses and '', or None and the reason."""
    with needed_for("the compiler's name"):
        from torch._inductor.cpp_builder import get_cpp_compiler
    try:
        return get_cpp_compiler(), ""
    except Exception as error:  # torch raises its own kinds, which differ by version
        return None, str(error).split("\n")[0] or type(error).__name__


def triton_pair() -> tuple[str | None, str | None, bool]:
    """Return the Triton this torch wants, the one installed, whether they match."""
    needs = "\n".join(metadata.requires("torch") or ())
    pinned = re.search(r"triton\s*\(?(?:==\s*([\d.]+)|~=\s*([\d.]+)\.\d+)", needs)
    wanted = pinned[1] or pinned[2] if pinned else _TRITON.get(torch.__version__[:4])
    installed = version_of("triton")
    match = bool(wanted and installed and f"{installed}.".startswith(f"{wanted}."))
    return wanted, installed, match
