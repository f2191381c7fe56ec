"""The one place where the course names what torch does not promise.

`torch.compile` tells what it did through private modules, which move between
versions.  `NAMES` lists all that the course uses, `private` looks one up when it
is needed, and a missing one raises `Unavailable`, which says what is lost.
Written for torch 2.11 to 2.15.

    private(key)         the object behind a key of NAMES; missing() lists the absent
    trace()              the compiler's structured log (what tlparse reads), as Events
    unwrap, is_compiled  what torch.compile was given; captured: and it made a graph
    copy_marks           what mark_dynamic wrote on a tensor, for its copy
    cudagraph_log()      what torch says about CUDA graphs it skips or records
    fresh_caches()       empty Inductor and Triton caches, for an honest cold start
    device_memories()    what torch remembers about the GPU
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
    "mark dynamic": ("_dynamo:mark_dynamic", "dynamic shapes in a recording"),
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
    "compile graph": ("_inductor.compile_fx:compile_fx", "Triton code for any GPU"),
    "lower graph": ("_inductor.compile_fx:compile_fx_inner", "code for any GPU"),
    "output module": ("_inductor.graph:GraphLowering", "Triton code for any GPU"),
    "schedule": ("_inductor.scheduler", "Triton code for any GPU"),
    "inductor settings": ("_inductor.config", "Triton code for any GPU"),
    "autograd settings": ("_functorch.config", "the backward for any GPU"),
    "decompositions": (
        "_inductor.decomposition:select_decomp_table",
        "code for any GPU",
    ),
    "modes": ("_inductor:list_mode_options", "a mode of code for any GPU"),
    "joint passes": ("_inductor.compile_fx", "the passes that ask for the GPU"),
    "joint graph": ("_inductor.fx_passes.joint_graph", "code for any GPU"),
    "attention": ("_inductor.fx_passes.fuse_attention", "attention on any GPU"),
    "triton support": ("utils._triton", "Triton kernels of your own"),
    "gpu": ("_dynamo.device_interface:CudaInterface", "Triton code for any GPU"),
    "fake": ("_subclasses.fake_tensor:FakeTensor", "Triton code for any GPU"),
    "heuristics": ("_inductor.runtime.triton_heuristics", "the launch of a kernel"),
    "hints": ("_inductor.runtime.hints", "machine code for any GPU"),
    "triton helpers": ("_inductor.runtime.triton_helpers", "the launch of a kernel"),
}

# What torch remembers about the device, and must forget when that changes.
_DEVICE_MEMORIES = {
    "_inductor.runtime.hints:DeviceProperties": "create",
    "_inductor.codecache:CacheBase": "get_system",
    "_inductor.utils": "get_gpu_type is_big_gpu get_max_num_sms using_b200 "
    "get_backend_num_stages get_device_tflops get_gpu_dram_gbps "
    "_triton_supported_fp8_dtypes",
    "_inductor.codegen.cuda.cuda_env": "get_cuda_arch is_datacenter_blackwell_arch",
    "_inductor.kernel.mm": "_is_sm7x_or_older_gpu",
    "utils._triton": "has_triton _device_supports_tma has_triton_tma "
    "has_triton_experimental_host_tma has_triton_tensor_descriptor_host_tma "
    "has_triton_tma_device has_triton_stable_tma_api triton_backend "
    "has_datacenter_blackwell_tma_device triton_hash_with_backend",
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


def device_memories() -> list[Any]:
    """Return the cached functions of this torch that remember something of a GPU."""
    found = []
    for place, names in _DEVICE_MEMORIES.items():
        module, _, owner = place.partition(":")
        with contextlib.suppress(ImportError, AttributeError):  # another version's
            held = import_module(f"torch.{module}")
            held = getattr(held, owner) if owner else held
            found += [getattr(held, name, None) for name in names.split()]
    return [each for each in found if hasattr(each, "cache_clear")]


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


@contextlib.contextmanager
def cudagraph_log() -> Iterator[list[str]]:
    """Collect what ``TORCH_LOGS=cudagraphs`` would print inside the block."""
    private("compile graph")  # its loggers exist once it is imported
    names = [n for n in logging.root.manager.loggerDict if n.endswith("__cudagraphs")]
    logs, said = [logging.getLogger(name) for name in names], list[str]()
    levels = [log.level for log in logs]
    collector = logging.Handler()
    collector.emit = lambda record: said.append(record.getMessage())
    for log in logs:
        log.addHandler(collector)
        log.setLevel(logging.INFO)
    try:
        yield said
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.removeHandler(collector)
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


def copy_marks(source: torch.Tensor, target: torch.Tensor) -> None:
    """Write on *target* what mark_dynamic and its kin wrote on *source*."""
    for name, mark in vars(source).items():
        if name.startswith(("_dynamo_", "_has_dynamo_", "_specialize_on")):
            setattr(target, name, copy.copy(mark))


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


def broken_promise(error: BaseException) -> str:
    """Return which promise of a marked size is broken, and what to do; else ''."""
    if type(error).__name__ != "ConstraintViolationError":
        return ""
    lines = str(error).strip().splitlines()
    reason = next((line for line in lines if line.lstrip()[:1] == "-"), lines[0])
    return (
        f"a marked size does not keep its promise: {reason.strip(' -')}\n"
        "Take the mark (mark_dynamic) away, change its bounds, or mend that line."
    )


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
