"""What a dump holds: kernels, graphs, and the whole, as text, HTML and JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

from helpers.codegen import folded
from helpers.gpu import gpus, machine_code
from helpers.gpu.tidy import tidy
from helpers.results import Result
from helpers.text import Table, count, pre, size


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
        return machine_code.configs(self.generated, gpus.find(self.gpu))

    @cached_property
    def grid(self) -> Any:
        """How many programs are launched, in three directions."""
        found = gpus.find(self.gpu)
        parameters = _parameters(self.generated)
        numbers = zip(parameters, map(_number, self.arguments), strict=False)
        numels = {name: n for name, n in numbers if n is not None}
        return machine_code.grid(
            self.generated, found, self.configs[self.chosen], numels
        )

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
            self._made[key] = machine_code.compile_kernel(self.generated, found, key[1])
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
        from helpers.gpu.folders import write_dump

        write_dump(self, folder)

    def check_numerics(self) -> Any:
        """Run each kernel in Triton's interpreter and compare it with eager."""
        from helpers.gpu.interpret import check_numerics

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
