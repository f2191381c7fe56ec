"""The Triton code that Inductor would generate for a GPU, on a machine without one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from unittest import mock

import torch
from torch.utils import _triton

from .. import session
from .._torch import needed_for
from ..codegen import Kernel, folded
from ..errors import InputError, one_line
from ..results import Result, TableResult, write_atomically
from ..tensors import tensors
from ..text import Table, count, pre, size
from . import compile, gpus, linked, templates
from . import fake_gpu as fake
from .changes import Changes, changes
from .fake_gpu import LoweredGraph, Lowering, LoweringHere
from .origins import Origins
from .templates import Candidate, Candidates, Choosing

with needed_for("Triton code for a GPU that is not here"):
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.runtime.triton_heuristics import GridExpr


def dump_triton(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: dict[str, Any] | None = None,
    gpu: str = "h100",
    training: bool = False,
    mode: str | None = None,
    dynamic: bool | None = None,
    template: int | str | None = None,
    around: AbstractContextManager[Any] | None = None,
) -> Dump:
    """Return the Triton code that Inductor would generate for *fn* on *gpu*.

    ``fn(*inputs, **kwargs)`` runs once, eagerly, on copies of the CPU tensors, and each
    graph is lowered for the GPU on the way; with *training*, its backward too (if
    nothing requires gradients, the floating-point inputs do).  *gpu* is a name in
    ``gpus.GPUS``, or ``this`` for what is really compiled here.  *mode* and
    *dynamic* are as for ``torch.compile``.  Tensors made on the CPU inside *fn* count
    as made on the GPU.

    What Inductor would time or record is set aside, and ``undecided`` names it: no
    product is padded, and nothing is recorded as a CUDA graph, though the code is cut
    where recordings would end.  With ``max-autotune``, ``candidates`` has what would be
    timed for each matrix product.  Shown is the library's; *template* chooses another:
    its number there, or words of its description such as ``"BLOCK_M=64, num_warps=8"``
    (for each product that has such a one).  *around* is entered around the call of
    *fn*: a mode of torch there sees what runs in no graph.

    Raises InputError when *fn* raises, for an unknown GPU, mode or candidate, for one
    that the GPU cannot run, and for what Inductor cannot lower; Unavailable without the
    triton that this torch works with.
    """
    kwargs = kwargs or {}
    session.check_callable(fn, (inputs, kwargs))
    fake.require_triton()
    here = gpu == "this"
    chosen = gpus.here() if here else gpus.find(gpu)
    if here and {tensor.is_cuda for tensor in tensors((inputs, kwargs))} == {False}:
        raise InputError("gpu='this' wants inputs on the GPU: move them by .to('cuda')")
    if here and template is not None:
        raise InputError("gpu='this' shows what torch chose here: leave template= out")
    choosing = Choosing(template)
    untimed = nullcontext() if here else choosing.instead_of_timing(chosen)
    backend = (LoweringHere if here else Lowering)(chosen, mode)
    # Dynamo takes the caller's own kernels into a graph where it believes in Triton.
    triton = mock.patch.object(_triton, "has_triton", return_value=True)
    with (
        fake.ONE_AT_A_TIME,
        session.undisturbed(fn),
        torch.inference_mode(False),
        torch.set_grad_enabled(training),
    ):
        run = session.compile_apart(fn, backend=backend, dynamic=dynamic)
        if training:
            run = _requiring_gradients(run)

        def counted(*given: Any, **named: Any) -> None:
            with around or nullcontext():
                run(*given, **named)

        try:
            with suppress(fake.Stopped), triton, untimed:
                session.call(counted, inputs, kwargs)
        except InputError as error:
            # torch wraps what a back end raises, and not what the program raises.
            failed = getattr(error.__cause__, "inner_exception", None)
            if failed is None:
                raise
            raise InputError(
                f"Inductor cannot lower this for {chosen.title}: {one_line(failed)}. "
                "Your function itself runs: dump it part by part to find the line"
            ) from error
    choosing.check(chosen)
    graphs = [graph for graph in backend.graphs if graph.source]
    return Dump(
        chosen.name,
        tuple(launch for graph in graphs for launch in _launches(graph, chosen.name)),
        tuple(DumpedGraph(g.index, g.phase, _reproducible(g.source)) for g in graphs),
        tuple(_undecided(backend, graphs, choosing)),
        tuple(choosing.noted),
        lowered=tuple(graphs),
    )


def _requiring_gradients(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let floating-point inputs require gradients, where nothing else does."""

    def run(*inputs: Any, **kwargs: Any) -> Any:
        given = list(tensors((inputs, kwargs)))
        if not any(t.requires_grad for t in (*given, *session.tensors_of(fn))):
            for tensor in given:
                tensor.requires_grad_(tensor.is_floating_point())
        return fn(*inputs, **kwargs)

    return run


def _reproducible(source: str) -> str:
    """Return *source* without what differs from call to call: files, and a count."""
    source = re.sub(r"^# (kernel path|AOT ID): .*\n", "", source, flags=re.M)
    return re.sub(r"^# Original path: .*[/\\]", "# Original path: ", source, flags=re.M)


_KINDS = {  # by what Inductor puts behind "triton_" in a kernel's name
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent reduction",
    "tem": "template",
    "for": "foreach",
    "spl": "split scan",
}


def _launches(graph: LoweredGraph, gpu: str) -> Iterator[DumpedKernel]:
    for place, launch in enumerate(graph.launches):
        name, arguments = graph.calls.get(place, (launch.name, ()))
        kind = _KINDS.get(name.removeprefix("triton_")[:3], "other")
        if launch.name == "your Triton kernel":
            kind = "yours"
        elif name not in graph.kernels:
            kind = "library"
        yield DumpedKernel(
            **vars(launch) | {"name": name, "phase": graph.phase},
            kind=kind,
            graph=graph.index,
            arguments=arguments,
            gpu=gpu,
            generated=graph.kernels.get(name, ""),
            origins=graph.origins.get(name, Origins()),
        )


def _undecided(
    backend: Lowering, graphs: list[LoweredGraph], choosing: Choosing
) -> Iterator[str]:
    """Yield what only the device can decide, for this program."""
    if not backend.count:
        yield "what eager runs: no graph was captured, so nothing is compiled"
    launches = [launch for graph in graphs for launch in graph.launches]
    library = [launch.name for launch in launches if launch.language == "library"]
    nodes = [node for graph in graphs for node in graph.aten.graph.nodes]
    tuned = backend.options.get("coordinate_descent_tuning")
    triton = [launch.name for launch in launches if launch.language == "Triton"]
    if any(not name.startswith("triton_tem_") for name in triton):
        yield "block sizes and warps, timed where kernel.configs has several"
        if tuned:
            yield "how far coordinate descent goes on: kernel.neighbours come next"
    products = [name for name in library if "mm" in name or "convolution" in name]
    if products:
        yield "which kernel a library picks for a matrix product or convolution"
    if any(map(_can_be_padded, nodes)):
        yield "whether to pad a matrix product, which shape_padding would time"
    if backend.attention:
        shown = " and ".join(sorted(backend.attention))
        yield f"which attention kernel PyTorch prefers; shown is {shown}"
    if backend.options.get("max_autotune"):
        yield from _unmatched(products, choosing)
    if backend.options.get("triton.cudagraphs"):
        parts = sum(graph.source.count("\ndef partition_") for graph in graphs)
        yield f"whether what runs can be recorded, as {count(parts, 'CUDA graph')}"
    if backend.autocast:
        yield (
            "what autocast casts on a GPU: here it follows the CPU's rules, and "
            "autocast('cuda') does nothing"
        )
    if {"cond", "while_loop", "invoke_subgraph"} & {str(node.target) for node in nodes}:
        yield "which branch of a cond runs, and how often a body: each is shown once"
    if any(not launch.loads + launch.stores for launch in launches):
        yield "the bytes of tensors whose sizes depend on data, counted as 0"
    if backend.stopped:
        yield f"what comes after {backend.stopped}, which needs a GPU to run"


def _unmatched(products: list[str], choosing: Choosing) -> Iterator[str]:
    """Yield what is open about the candidates for matrix products."""
    if choosing.noted:
        shown = dict.fromkeys(f"the {each.kind} {each.name}" for each in choosing.left)
        yield f"which of dump.candidates is the fastest; shown is {', '.join(shown)}"
        if any(each.kind == "template" for each in choosing.left):
            yield "whether a template with all that is fused to it beats two launches"
    elif products:
        yield "nothing among templates: torch offers none for these products"


_PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm")}


def _can_be_padded(node: torch.fx.Node) -> bool:
    """Return whether a product has a size that a padded one would round up."""
    if node.target not in _PRODUCTS:
        return False
    left, right = (arg.meta["val"] for arg in node.args[-2:])
    aligned = pad_mm.get_alignment_size(left)
    sizes = *left.shape[-2:], right.shape[-1]
    return any(pad_mm.get_padded_length(n, aligned) for n in sizes)


@dataclass(frozen=True, repr=False, kw_only=True)
class DumpedKernel(compile.Generated, Kernel):
    """One launch of a Triton kernel, or one call into a library (kind ``library``).

    Counted as by `kernels`; *arguments* are those of the launch: buffers by the names
    that the generated module gives them, and numbers.  Machine code is made when it is
    first asked for.
    """

    kind: str
    graph: int
    arguments: tuple[str, ...]
    gpu: str
    generated: str  # the kernel's own module, as Inductor wrote it
    origins: Origins = field(default_factory=Origins, hash=False)

    @cached_property
    def configs(self) -> tuple[compile.Config, ...]:
        """The block sizes and warps that Inductor would try, its first choice first.

        With more than one it would time them on the device.
        """
        with compile.loaded(self.generated, gpus.find(self.gpu)) as tuner:
            return compile.configs(tuner, tuner.configs)

    @cached_property
    def neighbours(self) -> tuple[compile.Config, ...]:
        """What coordinate descent would time at least, after the first choice.

        Each that is faster has neighbours in turn.  None where the mode did not ask for
        it.  Source: Inductor's own tuner, with equal times.
        """
        with compile.loaded(self.generated, gpus.find(self.gpu)) as tuner:
            asked_for = tuner.inductor_meta.get("coordinate_descent_tuning")
            if not asked_for or not tuner._should_coordesc_tune:
                return ()
            tried: list[Any] = []
            for known in tuner.configs:
                tuner.coordesc_tuner.cache_benchmark_result(known, 1.0)
            tuner.coordesc_tuner.autotune(
                lambda each: tried.append(each) or 1.0, tuner.configs[0], 1.0
            )
            return compile.configs(tuner, tried)

    @cached_property
    def grid(self) -> tuple[int, int, int] | str:
        """How many programs are launched in x, y, z; a formula where a size is open."""
        with compile.loaded(self.generated, gpus.find(self.gpu)) as tuner:
            meta = tuner.inductor_meta
            names = [p.name for p in tuner.fn.params if not p.is_constexpr]
            names += meta.get("extra_launcher_args", ())  # a grid that the launch gives
            given = zip(names, self.arguments, strict=False)
            sizes = {n: int(text) for n, text in given if re.fullmatch(r"-?\d+", text)}
            rule = GridExpr.from_meta(meta, tuner.configs[0])
            try:
                sizes |= tuner.configs[0].kwargs
                return tuple(map(int, rule.eval_slow(sizes)))
            except NameError:
                text = f"({rule.x_grid}, {rule.y_grid}, {rule.z_grid})"
                return re.sub(r"-\(\((\w+)\) // -\((\w+)\)\)", r"ceil(\1 / \2)", text)

    ttir = property(lambda self: self.on().ttir, doc="Triton's own representation.")
    ttgir = property(lambda self: self.on().ttgir, doc="The same, spread over threads.")
    llir = property(lambda self: self.on().llir, doc="LLVM's representation.")
    ptx = property(lambda self: self.on().ptx, doc="NVIDIA's portable assembly.")
    sass = property(lambda self: self.on().sass, doc="What the GPU executes.")
    registers = property(lambda self: self.on().registers, doc="Registers a thread.")
    spills = property(lambda self: self.on().spills, doc="Registers kept in memory.")
    shared = property(lambda self: self.on().shared, doc="Shared memory, in bytes.")
    occupancy = property(lambda self: self.on().occupancy, doc="Warps kept resident.")

    def __str__(self) -> str:
        return self.source or f"{self.name}: a call into a library, not generated"

    def _repr_html_(self) -> str:
        if not self.source:
            return pre(self)
        return folded(f"{self.name}: {self.kind}", self.source)


@dataclass(frozen=True, repr=False)
class DumpedGraph(Result):
    """One graph: its number in the program, phase, and the module written for it."""

    index: int
    phase: str
    source: str

    def __str__(self) -> str:
        return f"graph {self.index} {self.phase}"


@dataclass(frozen=True, repr=False)
class Dump(TableResult):
    """What a GPU would run: every launch in order, and the modules they come from.

    *undecided* says what only the device can decide, or that nothing is compiled;
    *launches* are the kernels and the calls into libraries between them.
    """

    gpu: str
    launches: tuple[DumpedKernel, ...]
    graphs: tuple[DumpedGraph, ...]
    undecided: tuple[str, ...] = ()
    noted: tuple[Candidate, ...] = ()
    """What would be timed for each matrix product, before any of it is compiled."""
    lowered: tuple[Any, ...] = field(default=(), compare=False)
    """A `LoweredGraph` for each graph, with what a call gave it; in no file."""

    @property
    def kernels(self) -> tuple[DumpedKernel, ...]:
        """The Triton kernels, in launch order."""
        return tuple(k for k in self.launches if k.kind != "library")

    @property
    def library(self) -> tuple[DumpedKernel, ...]:
        """The calls into libraries: matrix products, convolutions, attention."""
        return tuple(k for k in self.launches if k.kind == "library")

    @property
    def bytes(self) -> int:
        """Bytes moved by all launches."""
        return sum(k.bytes for k in self.launches)

    @property
    def source(self) -> str:
        """All that was generated, graph after graph."""
        return "\n".join(f"# {graph}\n{graph.source}" for graph in self.graphs)

    @cached_property
    def candidates(self) -> Candidates:
        """What would be timed for each matrix product, compiled when first asked for.

        None where torch itself timed them: for ``gpu="this"``.  Raises Unavailable
        without Triton.
        """
        return templates.candidates(self.noted, gpus.find(self.gpu))

    def table(self) -> Table:
        """Return a row for each launch."""
        headings = ("graph", "kind", "ops", "loads", "stores", "bytes", "name")
        rows = []
        for k in self.launches:
            graph, ops = f"{k.graph} {k.phase}", ", ".join(k.ops)
            rows.append((graph, k.kind, ops, k.loads, k.stores, size(k.bytes), k.name))
        return Table.of(headings, rows)

    def page(self, path: str | os.PathLike[str] | None = None) -> linked.Page:
        """Return each line's way to machine code as one page; write it to *path*."""
        page = linked.page(self)
        if path is not None:
            write_atomically(path, page.html)
        return page

    def diff(self, other: Dump) -> Changes:
        """Return what differs from another dump: kernels, registers, Triton code."""
        return changes(self, other)

    def check_numerics(self) -> Any:
        """Run each kernel in Triton's interpreter and compare it with eager."""
        from .interpreter import check_numerics

        return check_numerics(self)

    def _last(self) -> str:
        if not self.launches:
            lines = ["no kernels"]
        else:
            calls = count(len(self.library), "library call")
            kernels = count(len(self.kernels), "kernel")
            known = gpus.GPUS.get(self.gpu)  # not one of another machine
            title = known.title if known else self.gpu
            lines = [f"{title}: {kernels}, {calls}, {size(self.bytes)}"]
        return "\n".join([*lines, *(f"not decided here: {x}" for x in self.undecided)])

    def _repr_html_(self) -> str:
        return super()._repr_html_() + "".join(k._repr_html_() for k in self.kernels)
