"""The Triton code that Inductor would generate for a GPU, on a machine without one."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from helpers import session
from helpers.codegen import folded
from helpers.errors import InputError
from helpers.gpu import compile, fake_gpu, gpus
from helpers.gpu.fake_gpu import Capture, Lowered
from helpers.gpu.tidy import tidy
from helpers.results import Result, write_atomically
from helpers.session import both_ways
from helpers.text import Table, count, plain, pre, progress, size


@dataclass(frozen=True, repr=False)
class DumpedKernel(Result):
    """One launch of a Triton kernel, or one call into a library (kind ``library``).

    *loads*, *stores* and *bytes* are Inductor's counts, each tensor once; *arguments*
    are those of the launch: buffers by the names that the generated module gives them,
    and numbers; *hints* are the sizes that its symbols had.  Machine code is made when
    it is first asked for.
    """

    name: str
    kind: str
    graph: int
    phase: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    loads: int
    stores: int
    bytes: int
    arguments: tuple[str, ...]
    hints: tuple[tuple[str, int], ...]
    gpu: str
    generated: str  # the kernel's own module, as Inductor wrote it
    chosen: int = 0  # which of configs() is shown; on a real GPU, the one that ran

    @cached_property
    def source(self) -> str:
        """The kernel alone, tidied for reading."""
        return tidy(self.generated) if self.generated else ""

    @cached_property
    def configs(self) -> tuple[Any, ...]:
        """The block sizes and warps that Inductor would try, its first choice first."""
        return compile.configs(self.generated, gpus.find(self.gpu))

    @cached_property
    def grid(self) -> Any:
        """How many programs are launched, in three directions."""
        found = gpus.find(self.gpu)
        parameters = _parameters(self.generated)
        numbers = zip(parameters, map(_number, self.arguments), strict=False)
        numels = {name: n for name, n in numbers if n is not None}
        return compile.grid(self.generated, found, self.configs[self.chosen], numels)

    def on(self, gpu: str | None = None, config: int | None = None) -> Any:
        """Return the kernel's machine code for a GPU, also for another than its own.

        Raises InputError for an unknown GPU, or where Triton cannot compile it.
        """
        key = (
            gpus.find(gpu or self.gpu).name,
            self.chosen if config is None else config,
        )
        if key not in self._made:
            found = gpus.find(key[0])
            self._made[key] = compile.compile_kernel(self.generated, found, key[1])
        return self._made[key]

    @cached_property
    def _made(self) -> dict[tuple[str, int], Any]:
        return {}

    ttir = property(lambda self: self.on().ttir, doc="Triton's own representation.")
    ttgir = property(lambda self: self.on().ttgir, doc="The same, spread over threads.")
    llir = property(lambda self: self.on().llir, doc="LLVM's representation.")
    ptx = property(lambda self: self.on().ptx, doc="NVIDIA's portable assembly.")
    sass = property(lambda self: self.on().sass, doc="What the GPU executes.")
    registers = property(lambda self: self.on().registers, doc="Registers a thread.")
    spills = property(lambda self: self.on().spills, doc="Registers kept in memory.")
    shared = property(lambda self: self.on().shared, doc="Shared memory, in bytes.")
    occupancy = property(lambda self: self.on().occupancy, doc="Warps kept resident.")

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table row."""
        phase = f"{self.graph} {self.phase}"
        counts = map(str, (self.loads, self.stores))
        return (
            phase,
            self.kind,
            ", ".join(self.ops),
            *counts,
            size(self.bytes),
            self.name,
        )

    def __str__(self) -> str:
        return self.source or f"{self.name}: a call into a library, not generated"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.source:
            return pre(self)
        return folded(f"{self.name}: {self.kind}", [("python", self.source)])


def _parameters(generated: str) -> list[str]:
    """Return what a launch gives, in its order: parameters, and perhaps the grid."""
    launched = generated.partition("@triton_heuristics")[2]  # after its own functions
    found = re.search(r"@triton\.jit\ndef \w+\(([^)]*)\)", launched)
    parts = [part.strip() for part in found[1].split(",")] if found else []
    given = [part.split(":")[0].strip() for part in parts if "constexpr" not in part]
    return [*given, "_grid_0", "_grid_1", "_grid_2"]


def _number(argument: str) -> int | None:
    return int(argument) if argument.lstrip("-").isdigit() else None


@dataclass(frozen=True, repr=False)
class DumpedGraph(Result):
    """One graph: its number in the program, phase, and the module written for it."""

    index: int
    phase: str
    source: str

    def __str__(self) -> str:
        return f"graph {self.index} {self.phase}"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Dump(Result):
    """What a GPU would run: every launch in order, and the modules they come from.

    *undecided* says what only the device can decide; *launches* are the kernels and
    the calls into libraries between them.
    """

    gpu: str
    launches: tuple[DumpedKernel, ...]
    graphs: tuple[DumpedGraph, ...]
    undecided: tuple[str, ...] = ()

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

    def kernel(self, name: str) -> DumpedKernel:
        """Return the first launch whose name holds *name*; KeyError with the names."""
        for each in self.launches:
            if name in each.name:
                return each
        names = ", ".join(dict.fromkeys(k.name for k in self.launches))
        raise KeyError(f"no kernel {name!r}; there are: {names or 'none'}")

    def table(self) -> Table:
        """Return a row for each launch."""
        headings = ("graph", "kind", "ops", "loads", "stores", "bytes", "name")
        return Table.of(headings, [k.row() for k in self.launches])

    def write(self, folder: str | PathLike[str]) -> None:
        """Write everything, machine code included, to *folder* for browsing."""
        write_dump(self, folder)

    def check_numerics(self) -> Any:
        """Run each kernel in Triton's interpreter and compare it with eager."""
        from helpers.gpu.interpreter import check_numerics

        return check_numerics(self)

    def _last(self) -> str:
        if not self.launches:
            return "no kernels: no graph was captured, or none computes anything"
        calls = count(len(self.library), "library call")
        kernels = count(len(self.kernels), "kernel")
        return f"{gpus.find(self.gpu).title}: {kernels}, {calls}, {size(self.bytes)}"

    def __str__(self) -> str:
        parts = [str(self.table()) if self.launches else "", self._last()]
        parts += [f"not decided here: {each}" for each in self.undecided]
        return "\n".join(filter(None, parts))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.launches:
            return pre(self)
        rest = str(self).split("\n")[len(self.launches) + 2 :]
        bodies = "".join(k._repr_html_() for k in self.kernels)
        return self.table()._repr_html_() + pre("\n".join(rest)) + bodies


# The file of each stage, in the order of the lowering.
FILES = {
    "source": "source.py",
    "generated": "generated.py",
    "ttir": "kernel.ttir",
    "ttgir": "kernel.ttgir",
    "llir": "kernel.ll",
    "ptx": "kernel.ptx",
    "sass": "kernel.sass",
}


def write_dump(dump: Any, folder: str | PathLike[str]) -> Path:
    """Write *dump* to *folder* and return it.

    ``README.md`` says what is there; ``graph-0-forward.py`` and so on are the whole
    modules; ``kernels/`` holds a folder for each kernel, a file for each stage;
    ``dump.json`` is read back by ``load``.  Each file is written whole or not at all,
    and README.md last, so a folder without one was not finished.
    """
    root = Path(folder)
    if (root / "dump.json").exists():  # an older dump, which must not mix with this
        for old in (root / "README.md", *root.glob("graph-*-*.py")):
            old.unlink(missing_ok=True)
        shutil.rmtree(root / "kernels", ignore_errors=True)
    for graph in dump.graphs:
        name = f"graph-{graph.index}-{graph.phase}.py"
        write_atomically(root / name, graph.source)
    dump.save(root / "dump.json")
    lines = ["# What the GPU would run", "", "```", plain(dump), "```", ""]
    kernels = {kernel.name: kernel for kernel in dump.kernels}
    with progress("machine code", len(kernels)) as bar:
        for name, kernel in kernels.items():
            bar.set_description_str(name)
            lines += ["", f"## [{name}](kernels/{name}/source.py)", ""]
            lines += _write_kernel(root / "kernels" / name, kernel)
            bar.update()
    write_atomically(root / "README.md", "\n".join(lines) + "\n")
    return root


def _write_kernel(folder: Path, kernel: Any) -> list[str]:
    """Write one kernel's stages; return what the README says about it."""
    for stage, name in FILES.items():
        write_atomically(folder / name, getattr(kernel, stage))
    return [
        f"- {kernel.kind}: {', '.join(kernel.ops)}",
        f"- launched as {kernel.grid} programs of {kernel.configs[kernel.chosen]}",
        f"- {kernel.registers} registers a thread, {kernel.spills} spilled, "
        f"{kernel.shared} bytes of shared memory",
        f"- {kernel.occupancy}",
        *(f"- `{line}`" for line in kernel.lines),
    ]


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
    ``fake_gpu.Missing`` without the triton that this torch works with.
    """
    session.check_callable(fn, inputs)
    fake_gpu.require_triton()
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
    backend = (fake_gpu.Observed if gpu == "this" else Capture)(found, mode)
    with (
        fake_gpu.ONE_AT_A_TIME,
        session.undisturbed(fn),
        torch.inference_mode(False),
        torch.set_grad_enabled(training),
    ):
        apart = session.compile_apart(fn, backend=backend, dynamic=dynamic)
        run = fake_gpu.needing_gradients(apart) if training else apart
        if gpu == "this":  # each kernel has to run before its configuration is known
            run = both_ways(run, training)
        with suppress(fake_gpu.Stopped), fake_gpu.own_kernels():
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
