"""The Triton code that Inductor would generate for a GPU, on a machine without one."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from typing import Any

import torch

from helpers import capture, gpus, isolate, pretend
from helpers.capture import Capture, Lowered
from helpers.dumped import Dump, DumpedGraph, DumpedKernel
from helpers.traffic import both_ways

KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent reduction",
    "tem": "template",
    "for": "foreach",
    "spl": "split scan",
}


def dump_triton(
    fn: Callable[..., Any],
    *inputs: Any,
    gpu: str = "h100",
    training: bool = False,
    mode: str | None = None,
    dynamic: bool | None = None,
    to: str | PathLike[str] | None = None,
) -> Dump:
    """Return the Triton code that Inductor would generate for ``fn(*inputs)`` on *gpu*.

    *fn* runs once, eagerly, on copies of the CPU tensors, and each graph is lowered
    for the GPU on the way; with *training*, its backward too (if nothing requires
    gradients, the floating-point inputs do).  *gpu* is a name in ``gpus.GPUS``, or
    ``this`` for what really runs on this machine.  *mode* and *dynamic* are as for
    ``torch.compile``; *to* is a folder to write everything to.  Tensors made on the
    CPU inside *fn* count as made on the GPU.

    Raises InputError when *fn* raises, for an unknown GPU or mode, or for an AMD
    GPU, which has machine code only: ``kernel.on("mi300x")``.  Raises
    ``pretend.Missing`` without the triton that this torch works with.
    """
    isolate.check_callable(fn, inputs)
    pretend.require_triton()
    found = gpus.here() if gpu == "this" else gpus.find(gpu)
    if found.language != "cuda":
        raise isolate.InputError(
            f"{found.name} has machine code only: dump for h100, then ask a kernel "
            f"for kernel.on({found.name!r})"
        )
    if gpu == "this" and inputs and not isolate.on_gpu(inputs):
        raise isolate.InputError(
            "gpu='this' shows what runs on the GPU, and the inputs are on the CPU: "
            "move them, and the module, with .to('cuda')"
        )
    backend = (capture.Observed if gpu == "this" else Capture)(found, mode)
    with isolate.undisturbed(fn), torch.set_grad_enabled(training):
        apart = isolate.compile_apart(fn, backend=backend, dynamic=dynamic)
        run = capture.needing_gradients(apart) if training else apart
        if gpu == "this":  # each kernel has to run before its configuration is known
            run = both_ways(run, training)
        with suppress(capture.Stopped), pretend.own_kernels():
            isolate.call(run, inputs, {})
        if gpu == "this":
            backend.settle()
    result = _dump(backend, found.name, mode)
    if to is not None:
        result.write(to)
    return result


def _dump(backend: Capture, gpu: str, mode: str | None) -> Dump:
    lowered = tuple(backend.found)
    launches = [launch for graph in lowered for launch in _launches(graph, gpu)]
    graphs = [DumpedGraph(g.index, g.phase, _without_paths(g.source)) for g in lowered]
    undecided = _undecided(backend, mode)
    result = Dump(gpu, tuple(launches), tuple(graphs), tuple(undecided))
    object.__setattr__(result, "_captured", lowered)  # live graphs, for check_numerics
    return result


_KERNEL = re.compile(r"^(\w+) = async_compile\.triton\(.*?r?'''(.*?)'''", re.M | re.S)
_ASSIGNED = re.compile(r"^ +(\w+numel) = (.+)", re.M)
_LAUNCH = re.compile(r"^ +(\w+)\.run\((.*), stream=\w+\)", re.M)


def _without_paths(source: str) -> str:
    """Return *source* without the lines that name files of this machine."""
    return re.sub(r"^# kernel path: .*\n", "", source, flags=re.M)


def _launches(graph: Lowered, gpu: str) -> list[DumpedKernel]:
    texts = dict(_KERNEL.findall(_without_paths(graph.source)))
    values = dict(_ASSIGNED.findall(graph.source))
    runs = [
        (name, tuple(_value(each, values, graph.hints) for each in _split(given)))
        for name, given in _LAUNCH.findall(graph.source)
    ]
    made, hints = [], tuple(graph.hints.items())
    for launch in graph.launches:
        name, given = launch.name, ()
        if launch.language == "Triton" or name == "your Triton kernel":
            name, given = runs.pop(0) if runs else (name, ())
        kind = KINDS.get(name.removeprefix("triton_")[:3], "other")
        if launch.name == "your Triton kernel":
            kind = "yours"
        elif name not in texts:
            kind = "library"
        made.append(
            DumpedKernel(
                name=name,
                kind=kind,
                graph=graph.index,
                phase=graph.phase,
                ops=launch.ops,
                lines=launch.lines,
                loads=launch.loads,
                stores=launch.stores,
                bytes=launch.bytes,
                arguments=given,
                hints=hints,
                gpu=gpu,
                generated=texts.get(name, "").strip() + "\n" if name in texts else "",
                chosen=graph.chosen.get(name, 0),
            )
        )
    return made


def _split(given: str) -> tuple[str, ...]:
    """Return the arguments of a call, which may hold calls themselves."""
    parts, depth = [""], 0
    for letter in given:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part.strip() for part in parts)


def _value(argument: str, values: dict[str, str], hints: dict[str, int]) -> str:
    """Return an argument as a number, if it is made of numbers and known symbols."""
    text = values.get(argument, argument)
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    if not re.fullmatch(r"[\w\s+\-*/()]+", text) or not names <= set(hints):
        return argument
    return str(int(eval(text, {"__builtins__": {}}, dict(hints))))


def _undecided(backend: Capture, mode: str | None) -> list[str]:
    """Return what only the device can decide, for this program."""
    said = []
    if any(launch.language == "Triton" for g in backend.found for launch in g.launches):
        said.append("block sizes and warps, timed where kernel.configs has several")
    library = [x for g in backend.found for x in g.launches if x.language == "library"]
    if any("mm" in x.name or "convolution" in x.name for x in library):
        said.append("which kernel a library picks for a matrix product or convolution")
    if backend.attention:
        shown = " and ".join(sorted(backend.attention))
        said.append(f"which attention kernel PyTorch prefers; shown is {shown}")
    if any(_odd_product(node) for g in backend.found for node in g.aten.graph.nodes):
        said.append("whether a matrix product of odd sizes is padded, which is timed")
    if mode in ("max-autotune", "max-autotune-no-cudagraphs"):
        said.append("whether a Triton template beats the library's matrix product")
    if mode in ("max-autotune", "reduce-overhead"):
        said.append("whether the launches can be recorded as a CUDA graph")
    if backend.stopped:
        said.append(f"what comes after {backend.stopped}, which needs a GPU to run")
    return said


def _odd_product(node: Any) -> bool:
    if "mm" not in str(node.target).split(".")[1:2]:
        return False
    values = [arg.meta.get("val") for arg in node.args if hasattr(arg, "meta")]
    return any(n % (16 // v.itemsize) for v in values for n in v.shape)
