"""The Triton code that Inductor would generate for a GPU, on a machine without one."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from typing import Any

import torch

from helpers import session
from helpers.errors import InputError
from helpers.gpu import capture, gpus, pretend
from helpers.gpu.capture import Capture, Lowered
from helpers.gpu.dumped import Dump, DumpedGraph, DumpedKernel
from helpers.session import both_ways

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
    session.check_callable(fn, inputs)
    pretend.require_triton()
    found = gpus.here() if gpu == "this" else gpus.find(gpu)
    if found.language != "cuda":
        raise InputError(
            f"{found.name} has machine code only: dump for h100, then ask a kernel "
            f"for kernel.on({found.name!r})"
        )
    if gpu == "this" and inputs and not session.on_gpu(inputs):
        raise InputError(
            "gpu='this' shows what runs on the GPU, and the inputs are on the CPU: "
            "move them, and the module, with .to('cuda')"
        )
    backend = (capture.Observed if gpu == "this" else Capture)(found, mode)
    with (
        pretend.ONE_AT_A_TIME,
        session.undisturbed(fn),
        torch.inference_mode(False),
        torch.set_grad_enabled(training),
    ):
        apart = session.compile_apart(fn, backend=backend, dynamic=dynamic)
        run = capture.needing_gradients(apart) if training else apart
        if gpu == "this":  # each kernel has to run before its configuration is known
            run = both_ways(run, training)
        with suppress(capture.Stopped), pretend.own_kernels():
            session.call(run, inputs, {})
        if gpu == "this":
            backend.settle()
    result = _dump(backend, found.name, mode)
    if to is not None:
        result.write(to)
    return result


def _dump(backend: Capture, gpu: str, mode: str | None) -> Dump:
    lowered = tuple(backend.found)
    launches = [launch for graph in lowered for launch in _launches(graph, gpu)]
    graphs = [DumpedGraph(g.index, g.phase, _reproducible(g.source)) for g in lowered]
    undecided = _undecided(backend, mode)
    result = Dump(gpu, tuple(launches), tuple(graphs), tuple(undecided))
    object.__setattr__(result, "_captured", lowered)  # live graphs, for check_numerics
    return result


def _reproducible(source: str) -> str:
    """Return *source* without what differs from call to call: files, and a count."""
    source = re.sub(r"^# (kernel path|AOT ID): .*\n", "", source, flags=re.M)
    return re.sub(r"^# Original path: .*[/\\]", "# Original path: ", source, flags=re.M)


def _launches(graph: Lowered, gpu: str) -> list[DumpedKernel]:
    texts, runs = _written(graph)
    defined = {launch.name for launch in graph.launches}
    made, hints = [], tuple(graph.hints.items())
    for launch in graph.launches:
        # By name, and not in order: a subgraph is written before its caller.
        own = launch.name == "your Triton kernel"
        mine = (n for n, (name, _) in enumerate(runs) if name == launch.name)
        if own:
            mine = (n for n, (name, _) in enumerate(runs) if name not in defined)
        at = next(mine, None)
        name, given = runs.pop(at) if at is not None else (launch.name, ())
        kind = KINDS.get(name.removeprefix("triton_")[:3], "other")
        if own:
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


def _written(
    graph: Lowered,
) -> tuple[dict[str, str], list[tuple[str, tuple[str, ...]]]]:
    """Return the kernels of a module by name, and the launches in it, in order."""
    texts, runs, values = {}, [], {}
    nodes = ast.walk(ast.parse(_reproducible(graph.source)))
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Assign):
            name, value = ast.unparse(node.targets[0]), node.value
            if ast.unparse(value).startswith("async_compile.triton("):
                texts[name] = value.args[1].value
            elif name.endswith("numel"):  # may be set again for the next launch
                values[name] = ast.unparse(value)
        elif called.endswith(".run") and "stream" in [k.arg for k in node.keywords]:
            given = (_value(ast.unparse(a), values, graph.hints) for a in node.args)
            runs.append((called.removesuffix(".run"), tuple(given)))
    return texts, runs


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
    if backend.autocast:
        said.append(
            "what autocast casts on a GPU: here it follows the CPU's rules, and "
            "autocast('cuda') does nothing"
        )
    nodes = [str(n.target) for g in backend.found for n in g.aten.graph.nodes]
    if {"cond", "while_loop", "invoke_subgraph"} & set(nodes):
        said.append(
            "which branch of a cond runs, and how often a body: each is shown once"
        )
    launched = [x for g in backend.found for x in g.launches]
    if any(not x.loads + x.stores for x in launched):
        said.append("the bytes of tensors whose sizes depend on data, counted as 0")
    if backend.eager:
        said.append(f"a graph that torch.compile leaves to eager: {backend.eager}")
    if backend.stopped:
        said.append(f"what comes after {backend.stopped}, which needs a GPU to run")
    return said


# What Inductor pads, and to how many elements: only where timing says so.
_PADDED = {f"aten.{name}.default" for name in ("mm", "addmm", "bmm")}
_ALIGNED = {torch.float16: 8, torch.bfloat16: 8, torch.float32: 4}


def _odd_product(node: Any) -> bool:
    if str(node.target) not in _PADDED:
        return False
    values = [arg.meta["val"] for arg in node.args if hasattr(arg, "meta")]
    return any(n % _ALIGNED.get(v.dtype, 1) for v in values[-2:] for n in v.shape[-2:])
