"""What Inductor emits while it lowers a graph: kernels and library calls, in order."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from helpers import compat
from helpers.text import mark, size


@dataclass(frozen=True)
class Kernel:
    """One launch.  Loads and stores are tensors read and written, not instructions.

    *language* is ``C++``, ``Triton`` or ``library``; *phase* is ``inference``,
    ``forward`` or ``backward``; *bytes* is Inductor's own count, each tensor read
    or written once; *lines* are the lines of the program that ended here.
    """

    name: str
    language: str
    phase: str
    ops: tuple[str, ...]
    loads: int
    stores: int
    reductions: int
    bytes: int
    lines: tuple[str, ...] = ()

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table row; the last depends on the machine."""
        ops = ", ".join(self.ops)
        counts = (self.loads, self.stores, self.reductions, size(self.bytes))
        where = mark(f"{self.language}: {self.name}")
        return (self.phase, ops, *map(str, counts), where)


@contextlib.contextmanager
def lowered() -> Iterator[list[Kernel]]:
    """Collect the kernels and library calls that are lowered inside the block.

    Works before anything runs, so also for code that this machine cannot run.
    No public hook tells which nodes end in which kernel, so the three methods
    where Inductor writes a launch are wrapped, and put back afterwards.
    """
    found: list[Kernel] = []

    def generated(language: str, original: Any) -> Callable[..., str]:
        def define_kernel(self: Any, source: str, nodes: Any, *rest: Any, **more: Any):
            name = original(self, source, nodes, *rest, **more)
            found.append(_kernel(name, language, _fused(nodes)))
            return name

        return define_kernel

    scheduler = compat.private("scheduler")
    launch_library = scheduler.codegen_extern_call

    def codegen_extern_call(self: Any, node: Any) -> None:
        if name := _library_name(node.node):
            found.append(_kernel(name, "library", [node]))
        launch_library(self, node)

    with contextlib.ExitStack() as stack:
        patch = mock.patch.object
        for language in ("C++", "Triton"):
            cls = compat.private(language)
            method = generated(language, cls.define_kernel)
            stack.enter_context(patch(cls, "define_kernel", method))
        name = "codegen_extern_call"
        stack.enter_context(patch(scheduler, name, codegen_extern_call))
        yield found


def _fused(schedule: Any) -> list[Any]:
    """Return the fused groups of a schedule, which also holds markers."""
    nodes = [n for n in schedule if hasattr(n, "scheduler") and hasattr(n, "get_name")]
    groups = [n.scheduler.name_to_fused_node.get(n.get_name(), n) for n in nodes]
    return list(dict.fromkeys(groups))


def _library_name(node: Any) -> str:
    """Return ``extern_kernels.mm`` and the like; '' for a node that launches none."""
    if type(node).__name__ == "UserDefinedTritonKernel":
        return "your Triton kernel"
    name = getattr(node, "python_kernel_name", None) or ""
    return name.removeprefix("torch.ops.").removesuffix(".default")


def _kernel(name: str, language: str, groups: list[Any]) -> Kernel:
    graph = compat.private("lowered").graph
    phase = "backward" if graph.is_backward else "forward"
    parts = [part for group in groups for part in group.get_nodes()]
    reads = {n for g in groups for n in _buffers(g, reads=True)}
    writes = {n for g in groups for n in _buffers(g, reads=False)}
    origins = _origins(parts)
    return Kernel(
        name=name,
        language=language,
        phase="inference" if graph.is_inference else phase,
        ops=_ops(origins) or (op_name(name.removeprefix("aten.")),),
        lines=tuple(dict.fromkeys(filter(None, map(program_line, origins)))),
        loads=len(reads),
        stores=len(writes),
        reductions=sum(bool(part.is_reduction()) for part in parts),
        bytes=sum(int(group.get_read_write_buffers_sizes()) for group in groups),
    )


def _buffers(group: Any, reads: bool) -> list[str]:
    count = group.get_read_write_buffer_accesses
    sizes = count(include_reads=reads, include_writes=not reads)
    return [name for name, bytes_ in sizes.items() if bytes_]


def _origins(parts: list[Any]) -> list[Any]:
    """Return the nodes of the program's graph that ended here, in its order."""
    origins = {n for part in parts if part.node for n in part.node.get_origins()}
    if len(parts) == 1 and parts[0].is_extern():  # others only feed it
        own = parts[0].node.get_origin_node()
        origins = {own} if own is not None else origins
    graphs = {node.graph for node in origins}
    order = {node: i for graph in graphs for i, node in enumerate(graph.nodes)}
    return sorted(origins, key=order.__getitem__)


def _ops(origins: list[Any]) -> tuple[str, ...]:
    """Return the operations of the program, each call once."""
    named = [_op(node) for node in origins]
    return tuple(dict(pair for pair in named if pair[1]).values())


def program_line(node: Any) -> str:
    """Return ``12: h = torch.sin(x)``: the caller's innermost line behind a node.

    A module that is called from no line of theirs gives its own name and kind.
    """
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    if own:
        return f"{own[-1][1]}: {own[-1][2].strip()}"
    names = ("nn_module_stack", "fwd_nn_module_stack")
    stacks = [node.meta[name] for name in names if node.meta.get(name)]
    modules = [pair for stack in stacks for pair in stack.values()]
    if not modules:
        return ""
    path, kind = modules[-1]
    name = path.split(".")[-1]
    name = name if name and not name.startswith("L[") else "self"  # it is the whole
    return f"{name}: {getattr(kind, '__name__', kind)}"


_TORCH = str(Path(torch.__file__).parent)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in .*\n(.*)')


def _op(node: Any) -> tuple[Any, str]:
    """Return what identifies an operation of the program, and its name."""
    aten = node.meta.get("original_aten")
    if getattr(aten, "is_view", False) or "unsafe_view" in str(aten):  # moves nothing
        return None, ""
    stack = node.meta.get("source_fn_stack")
    if stack and not isinstance(stack[-1][1], type):  # a class: some module's forward
        return stack[-1][0], op_name(stack[-1][1])
    return (str(aten), node.meta.get("seq_nr")), op_name(aten or "")


def op_name(target: Any) -> str:
    """Return ``sin`` or ``add`` for a torch function, method or aten operation."""
    if "triton_kernel_wrapper" in str(target):
        return "your kernel"
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    name = (name or str(target)).split(".")[0].strip("_")
    return name.removeprefix("native_").removeprefix("safe_")
