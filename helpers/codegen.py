"""The kernels that a program becomes, and their source.

`kernels` and `output_code` compile anew, apart from the session and past the cache of
graphs, so that the lowering really runs; `lowered` collects what it emits.  Counts are
Inductor's own: the nodes of its scheduler know what they read and write, and which
nodes of the program's graph ended in them.
"""

from __future__ import annotations

import contextlib
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from . import _torch, session
from ._torch import needed_for
from .capture import breaks_among, op_name
from .flops import flops, needed
from .results import Result, TableResult
from .tensors import tensors
from .text import Table, count, mark, plain, size

with needed_for("the kernels"):
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.dependencies import WeakDep
    from torch._inductor.scheduler import FusedMixOrderReductions, Scheduler
    from torch._inductor.virtualized import V


@dataclass(frozen=True)
class Kernel:
    """One launch.  Loads and stores are tensors read and written, not instructions.

    *language* is ``C++``, ``Triton`` or ``library``; *phase* is ``inference``,
    ``forward`` or ``backward``; *bytes* is Inductor's own count, each number that is
    accessed read or written once, *gathered* of them by an index; *lines* are those of
    the program that ended here; *flops* are the operations of products in *dtype*, of
    which no algorithm spares *needed*; *results* are the numbers that they have.
    """

    name: str
    language: str
    phase: str
    ops: tuple[str, ...]
    loads: int = 0
    stores: int = 0
    reductions: int = 0
    bytes: int = 0
    lines: tuple[str, ...] = ()
    flops: int = 0
    dtype: str = ""
    results: int = 0
    gathered: int = 0
    needed: int = 0


@dataclass(frozen=True, repr=False)
class Kernels(TableResult):
    """The launches of one call, in order; with breaks, of its compiled parts only."""

    kernels: tuple[Kernel, ...]
    breaks: int = 0
    uncompiled: tuple[str, ...] = ()  # places: what a backend refused, and is eager

    @property
    def bytes(self) -> int:
        """Bytes moved by all launches: each tensor read or written once by each."""
        return sum(kernel.bytes for kernel in self.kernels)

    @property
    def generated(self) -> tuple[Kernel, ...]:
        """The kernels that Inductor wrote."""
        return tuple(k for k in self.kernels if k.language != "library")

    @property
    def library(self) -> tuple[Kernel, ...]:
        """The calls into libraries: matrix products, convolutions, attention."""
        return tuple(k for k in self.kernels if k.language == "library")

    def table(self) -> Table:
        """Return a row for each launch; its last cell depends on the machine."""
        headings = ("phase", "ops", "loads", "stores", "reductions", "bytes", "kernel")
        rows = []
        for k in self.kernels:
            counts = k.loads, k.stores, k.reductions, size(k.bytes)
            kernel = mark(f"{k.language}: {k.name}")
            rows.append((k.phase, ", ".join(k.ops), *counts, kernel))
        return Table.of(headings, rows)

    def _last(self) -> str:
        if not self.kernels:
            nothing = "nothing was captured, or nothing is computed for a result"
            return f"no kernels: {nothing}; graphs(f, x) says where it stops"
        calls = count(len(self.library), "library call")
        text = f"{count(len(self.generated), 'kernel')}, {calls}, {size(self.bytes)}"
        partly = "; only partly compiled, graphs(f, x) says where it stops"
        return text + partly * bool(self.breaks)


def kernels(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: dict[str, Any] | None = None,
    backward: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Kernels:
    """Return the kernels and library calls of ``fn(*inputs, **kwargs)``, as launched.

    Runs *fn* once on copies of the tensors, then its backward, through
    ``torch.autograd.grad``, if *backward* or by default if an output requires
    gradients.  *mode*, *options*, *dynamic* are as for ``torch.compile``.  Source:
    Inductor's scheduler nodes and its own count of bytes.

    Raises InputError when *fn* raises or cannot be compiled, and ValueError for an
    unknown mode or option.
    """
    how = {"mode": mode, "options": options, "dynamic": dynamic}
    launches, events = _compile(fn, inputs, kwargs, backward, **how)
    stops = breaks_among(events, fn)
    lost = (stop.place for stop in stops if stop.reason.startswith("Backend compiler"))
    return Kernels(tuple(launches), len(stops), tuple(dict.fromkeys(lost)))


def _compile(
    fn: Callable[..., Any],
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    backward: bool | None = None,
    **how: Any,
) -> tuple[list[Kernel], list[_torch.Event]]:
    session.check_callable(fn, (inputs, kwargs))
    backend = session.inductor(**how)
    with session.undisturbed(fn), _torch.trace() as events, lowered() as launches:
        apart = session.compile_apart(fn, backend=backend, dynamic=how.get("dynamic"))
        session.call(session.both_ways(apart, backward), inputs, kwargs or {})
    return launches, events


@contextlib.contextmanager
def lowered() -> Iterator[list[Kernel]]:
    """Collect the kernels and library calls that are lowered inside the block.

    Works before anything runs, so also for code that this machine cannot run.
    No public hook tells which nodes end in which kernel, so the three methods
    where Inductor writes a launch are wrapped, and put back afterwards.
    """
    kernels: list[Kernel] = []

    def generated(language: str, define: Any) -> Callable[..., str]:
        def define_kernel(self: Any, source: str, nodes: Any, *rest: Any, **more: Any):
            name = define(self, source, nodes, *rest, **more)
            if pieces := getattr(rest[0] if rest else None, _PIECES, ()):
                kernels.extend(_in_two_orders(name, _fused(nodes), rest[0], pieces))
            else:
                kernels.append(_kernel(name, language, _fused(nodes, apart=True)))
            return name

        return define_kernel

    launch_library = Scheduler.codegen_extern_call

    def codegen_extern_call(self: Any, node: Any) -> None:
        if name := _library_name(getattr(node, "kernel_node", node).node):
            kernels.append(_kernel(name, "library", [node]))
        launch_library(self, node)

    cpp = generated("C++", CppScheduling.define_kernel)
    triton = generated("Triton", TritonScheduling.define_kernel)
    with (
        mock.patch.object(CppScheduling, "define_kernel", cpp),
        mock.patch.object(TritonScheduling, "define_kernel", triton),
        mock.patch.object(Scheduler, "codegen_extern_call", codegen_extern_call),
    ):
        yield kernels


_PIECES = "saved_partial_accumulate"  # of a Triton kernel: what it leaves in pieces


def _fused(schedule: Any, apart: bool = False) -> list[Any]:
    """Return the fused groups of a schedule, which also holds markers.

    With *apart*, what was fused with a mix-order reduction counts alone: it has a
    separate launch.
    """
    nodes = [n for n in schedule if hasattr(n, "scheduler") and hasattr(n, "get_name")]
    groups = []
    for node in nodes:
        group = node.scheduler.name_to_fused_node.get(node.get_name(), node)
        mixed = apart and isinstance(group, FusedMixOrderReductions)
        groups.append(node if mixed else group)
    return list(dict.fromkeys(groups))


def _in_two_orders(
    name: str, groups: list[Any], kernel: Any, pieces: Sequence[Any]
) -> list[Kernel]:
    """Return a mix-order reduction, and the library calls that end it.

    It reduces rows whole, and columns in *pieces*, one for each program.  The wrapper
    adds up those by eager's own sum, for which the schedule has no node.
    """
    [group] = groups
    rows, width = (_hint(kernel.numels[axis]) for axis in ("x", "r0_"))
    workspace = -(-rows // kernel.rsplit_size) * width * torch.float32.itemsize
    counted = _kernel(name, "Triton", groups)
    read = group.get_read_write_buffer_accesses(True, False)
    written = group.node1.get_read_write_buffer_accesses(False, True)
    moved = sum(read.values()) + sum(written.values()) + workspace * len(pieces)
    joins = [
        Kernel(
            name=f"aten.{piece.reduction_type}",
            language="library",
            phase=counted.phase,
            ops=(piece.reduction_type,),
            loads=1,
            stores=1,
            reductions=1,
            bytes=workspace + width * V.graph.get_dtype(piece.buffer_name).itemsize,
        )
        for piece in pieces
    ]
    return [replace(counted, stores=len(written) + len(pieces), bytes=moved), *joins]


def _library_name(node: Any) -> str:
    """Return ``extern_kernels.mm`` and the like; '' for a node that launches none."""
    if type(node).__name__ == "UserDefinedTritonKernel":
        return "your Triton kernel"
    name = getattr(node, "python_kernel_name", None) or ""
    return name.removeprefix("torch.ops.").removesuffix(".default")


def _kernel(name: str, language: str, groups: list[Any]) -> Kernel:
    graph = V.graph
    phase = "backward" if graph.is_backward else "forward"
    parts = [part for group in groups for part in group.get_nodes()]
    origins = _origins(parts)
    ops = dict(op for op in map(_op, origins) if op[1])  # each call once
    return Kernel(
        name=name,
        language=language,
        phase="inference" if graph.is_inference else phase,
        ops=tuple(ops.values()) or (op_name(re.sub(r"^\w+\.", "", name)),),
        lines=tuple(dict.fromkeys(filter(None, map(program_line, origins)))),
        loads=_buffers(groups, include_reads=True, include_writes=False),
        stores=_buffers(groups, include_reads=False, include_writes=True),
        reductions=sum(bool(part.is_reduction()) for part in parts),
        **_traffic(groups),
        **_products(parts),
    )


def _traffic(groups: list[Any]) -> dict[str, int]:
    """Return the *bytes* that groups move, of parts the parts, and those *gathered*."""
    found = Counter[str]()
    for group in groups:
        extern = group.is_extern()
        accessed, indirect = _given(group) if extern else (Counter(), set())
        for dep in () if extern else group.read_writes.reads_and_writes():
            if isinstance(dep, WeakDep):  # it orders nodes, and reads nothing
                continue
            if dep.is_indirect():
                indirect.add(dep.name)
                numbers = prod(map(_hint, dep.size))
                accessed[dep.name] += numbers * V.graph.get_dtype(dep.name).itemsize
            else:
                accessed[dep.name] += dep.numbytes_hint()
        for name, most in group.get_read_write_buffer_accesses(True, True).items():
            moved = int(min(most, accessed.get(name, most if extern else 0)))
            found += Counter(bytes=moved, gathered=moved * (name in indirect))
    return found


def _given(call: Any) -> tuple[Counter[str], set[str]]:
    """Return the bytes that a library call is given, by buffer, and what it looks up.

    Of a part of a buffer the part counts, of an embedding_bag's table the rows.
    """
    given, node = Counter[str](), getattr(call, "kernel_node", call).node
    for one in pytree.tree_leaves(node.inputs):
        if shape := one.maybe_get_size():  # a generator has none
            given[one.get_name()] += prod(map(_hint, shape)) * one.get_dtype().itemsize
    if "embedding_bag" not in _library_name(node):
        return given, set()
    table, indices = node.inputs[:2]
    row = _hint(table.get_size()[1]) * table.get_dtype().itemsize
    given[table.get_name()] = prod(map(_hint, indices.get_size())) * row
    return given, {table.get_name()}


def _hint(size: Any) -> int:
    size = size.node.expr if isinstance(size, torch.SymInt) else size
    return int(V.graph.sizevars.optimization_hint(size, fallback=0))


def _products(parts: list[Any]) -> dict[str, Any]:
    """Return *flops*, *dtype*, *results*, *needed* of the products among *parts*."""
    found = {"flops": 0, "dtype": "", "results": 0, "needed": 0}
    for part in parts:
        if not (part.is_extern() or part.is_template()):
            continue
        for node in _origins([part]):
            args, kwargs, value = pytree.tree_map_only(
                torch.fx.Node,
                lambda n: n.meta.get("val"),
                (node.args, node.kwargs, node),
            )
            if done := flops(node.target, args, kwargs, value):
                found["flops"] += _hint(done)
                found["needed"] += _hint(needed(node.target, args, done))
                first, result = next(tensors(args)), next(tensors(value))
                found["dtype"] = str(first.dtype).removeprefix("torch.")
                found["results"] += prod(map(_hint, result.shape))
    return found


def _buffers(groups: list[Any], **which: bool) -> int:
    """Return how many tensors the *groups* access."""
    sizes = [group.get_read_write_buffer_accesses(**which) for group in groups]
    return len({name for table in sizes for name, moved in table.items() if moved})


def _origins(parts: list[Any]) -> list[Any]:
    """Return the nodes of the program's graph that ended here, in its order."""
    origins = {n for part in parts if part.node for n in part.node.get_origins()}
    if len(parts) == 1 and parts[0].is_extern():  # others only feed it
        node = parts[0].node
        called = getattr(node, "op_overload", None)  # of a fallback
        called = called or _library_name(node).rpartition(".")[2]
        same = [n for n in sorted(origins) if op_name(n.target) == op_name(called)]
        origins = {node.get_origin_node()} - {None} or {*same[-1:]} or origins
    return sorted(origins)


def program_line(node: Any) -> str:
    """Return ``12: h = torch.sin(x)``: the caller's innermost line behind a node.

    A module that no line of the caller calls gives its own name and kind.
    """
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    if own:
        return f"{own[-1][1]}: {own[-1][2].strip()}"
    stacks = [node.meta.get(f"{way}nn_module_stack") for way in ("", "fwd_")]
    modules = [module for stack in stacks for module in (stack or {}).values()]
    if not modules:
        return ""
    path, kind = modules[-1]
    name = path.split(".")[-1]
    name = name if name and not name.startswith("L[") else "self"  # it is the whole
    return f"{name}: {getattr(kind, '__name__', kind)}"


_TORCH = torch.__file__.removesuffix("__init__.py")  # not torchvision
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in .*\n(.*)')


def _op(node: Any) -> tuple[Any, str]:
    """Return the identity of an operation of the program, and its name."""
    aten = node.meta.get("original_aten")
    if getattr(aten, "is_view", False) or "unsafe_view" in str(aten):  # moves nothing
        return None, ""
    stack = node.meta.get("source_fn_stack")
    if stack and not isinstance(stack[-1][1], type):  # a class: some module's forward
        return stack[-1][0], op_name(stack[-1][1])
    return (str(aten), node.meta.get("seq_nr")), op_name(aten or "")


@dataclass(frozen=True, repr=False)
class Code(Result):
    """Generated source: all of its *text*, that of each graph after the other."""

    text: str

    @property
    def kernels(self) -> dict[str, str]:
        """The source of each kernel by its name, in their order."""
        sources: dict[str, str] = {}
        for match in _KERNEL.finditer(self.text):
            same = sum(name.partition(" ")[0] == match[1] for name in sources)
            name = f"{match[1]} ({same + 1})" if same else match[1]  # of another graph
            sources[name] = match[2].strip()
        return sources

    def __str__(self) -> str:
        if not self.text:
            return "no generated code: nothing was captured"
        lines = count(len(self.text.splitlines()), "line")
        names = ", ".join(self.kernels)
        return f"Generated code: {mark(f'{lines}: {names}')}"

    def _repr_html_(self) -> str:
        return folded(plain(self), self.text)


_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(.*?r?'''(.*?)'''", re.M | re.S)


def output_code(fn: Callable[..., Any], *inputs: Any, **how: Any) -> Code:
    """Return the source that Inductor generates for ``fn(*inputs, **kwargs)``.

    Arguments and errors as for `kernels`.  Source: the structured log of the compiler.
    """
    _, events = _compile(fn, inputs, **how)
    texts = [e.payload for e in events if e.kind == "inductor_output_code"]
    return Code("\n".join(texts))


def folded(title: str, source: str) -> str:
    """Return HTML with Python *source* in colour, which folds under its *title*."""
    from pygments import formatters, highlight, lexers

    # On their own paper, as these colours are not for a dark page.
    paper = "background:#F8F8F8; color:black"
    look = formatters.HtmlFormatter(
        noclasses=True, nobackground=True, style="tango", prestyles=paper
    )
    shown = highlight(source, lexers.PythonLexer(), look)
    summary = f"<summary>{html.escape(title)}</summary>"
    return f"<details open>{summary}{shown}</details>"
