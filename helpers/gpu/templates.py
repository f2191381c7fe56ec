"""The candidates for a matrix product that Inductor would time on a GPU.

A candidate is a call into a library, a template (a Triton kernel with sizes left open,
which Inductor fills in) or a graph of several kernels.  All but the timing is
Inductor's own: what it offers depends on the GPU, the sizes and its settings.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from .._torch import needed_for
from ..codegen import program_line
from ..errors import InputError
from ..results import TableResult
from ..text import Table, count, progress, size
from . import compile, gpus
from .compile import Config
from .gpus import Gpu, Occupancy

with needed_for("the candidates for a matrix product"):
    from torch._inductor.select_algorithm import (
        AlgorithmSelectorCache,
        ExternKernelCaller,
        TritonTemplateCaller,
    )
    from torch._inductor.virtualized import V


@dataclass(frozen=True, repr=False)
class Candidate(compile.Generated):
    """One way to compute a product, as it would be timed: without what is fused to it.

    *kind* is ``template``, ``library`` or ``graph`` (of several kernels, as when a long
    sum is split).  What is known only after a compile is there for templates: registers
    of 32 bits a thread, of which *spills* go to memory; *shared* bytes a block.
    """

    number: int  # in the whole dump; ``template=number`` chooses it
    product: int  # the place of its product among those of the dump
    operation: str  # "addmm of 512x2048, 512x1024, 1024x2048"
    line: str  # of the program
    kind: str
    name: str
    description: str  # Inductor's own words
    gpu: str
    programs: int = 0  # of the grid
    generated: str = ""  # the kernel's own module, as Inductor wrote it
    config: Config | None = None
    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    occupancy: Occupancy | None = None
    instruction: str = ""  # that multiplies tiles: "wgmma m64n64k16"
    problem: str = ""  # why it cannot run on this GPU

    @property
    def fits(self) -> bool:
        """Whether the GPU can run it, as far as that is known without the GPU."""
        return not self.problem

    @property
    def waves(self) -> float | None:
        """How often the GPU is filled with programs; None where it is not known."""
        if not self.occupancy or not self.occupancy.blocks:
            return None
        multiprocessors = gpus.find(self.gpu).multiprocessors
        return self.programs / (self.occupancy.blocks * multiprocessors)

    def __str__(self) -> str:
        title = f"candidate {self.number} for {self.operation}: {self.name}"
        parts = title, str(self.config or self.description), self.problem
        return "\n".join(filter(None, parts))


@dataclass(frozen=True, repr=False)
class Candidates(TableResult, Sequence):
    """The candidates of all products of a dump; ``candidates[3]`` is number 3."""

    candidates: tuple[Candidate, ...]

    def __getitem__(self, number: int) -> Candidate:
        return self.candidates[number]

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def templates(self) -> tuple[Candidate, ...]:
        """The templates among them."""
        return tuple(each for each in self if each.kind == "template")

    def table(self) -> Table:
        """Return a row for each candidate; *blocks* are resident on a multiprocessor.

        A program of the grid is one block.
        """
        headings = (
            *("number", "product", "candidate", "sizes", "registers", "spilled"),
            *("shared", "by", "blocks", "programs", "waves"),
        )
        return Table.of(headings, [self._row(each) for each in self])

    @staticmethod
    def _row(each: Candidate) -> tuple[Any, ...]:
        sizes = str(each.config or each.description).replace("BLOCK_", "")
        known = each.number, each.product, f"{each.kind} {each.name}", sizes
        if not each.occupancy:
            return *known, *[""] * 7
        waves = f"{each.waves:.2f}" if each.fits else "does not fit"
        needs = each.registers, each.spills, size(each.shared), each.instruction
        return *known, *needs, each.occupancy.blocks, each.programs, waves

    def _last(self) -> str:
        if not self.candidates:
            return "no candidates: nothing here would be timed for a matrix product"
        lines = []
        for first in {each.product: each for each in reversed(self)}.values():
            mine = [each for each in self.templates if each.product == first.product]
            fit = sum(each.fits for each in mine)
            where = f", line {first.line}" if first.line else ""
            lines.append(
                f"product {first.product}, {first.operation}{where}: "
                f"{count(len(mine), 'template')}, of which {fit} can run"
            )
        lines = lines[::-1] + [
            f"number {e.number} cannot: {e.problem}" for e in self if not e.fits
        ]
        return "\n".join([*lines, "which is the fastest, only the device can tell"])


class Choosing:
    """Stands in for Inductor's timing: notes what it would time, and leaves one.

    *template* is the number of a candidate or a description; where none is meant, the
    library stays, or the first candidate where there is none.
    """

    def __init__(self, template: int | str | None) -> None:
        self.template = template
        self.noted: list[Candidate] = []
        self.left: list[Candidate] = []  # one for each product
        self.meant: list[Candidate] = []  # those of them that *template* means

    @contextlib.contextmanager
    def instead_of_timing(self, gpu: Gpu) -> Iterator[None]:
        """Let Inductor choose in this way inside the block."""
        select = AlgorithmSelectorCache.__call__

        def leave_one(
            cache: Any, name: str, choices: Any, inputs: Any, *rest: Any, **more: Any
        ) -> Any:
            for preprocess in cache.preprocessing_fns:
                choices = preprocess(choices)
            if len(choices) > 1:
                choices = [self._left(name, choices, inputs, gpu)]
            return select(cache, name, choices, inputs, *rest, **more)

        with mock.patch.object(AlgorithmSelectorCache, "__call__", leave_one):
            yield

    def _left(self, name: str, choices: Any, inputs: Any, gpu: Gpu) -> Any:
        shapes = ["x".join(map(str, node.get_size())) for node in inputs]
        node = getattr(V.graph, "current_node", None)
        known = {
            "product": len(self.left),
            "operation": f"{name} of {', '.join(shapes)}",
            "line": program_line(node) if node else "",
            "gpu": gpu.name,
        }
        first = len(self.noted)
        new = [_noted(first + n, each, known) for n, each in enumerate(choices)]
        self.noted += new
        meant = [each for each in new if self._is_meant(each)][:1]
        self.meant += meant
        usual = [each for each in new if each.kind == "library"] or new
        self.left += meant or usual[:1]
        return choices[self.left[-1].number - first]

    def _is_meant(self, candidate: Candidate) -> bool:
        if not isinstance(self.template, str):
            return self.template == candidate.number
        words = {candidate.name, *candidate.description.split(", ")}
        return {*re.split(r",\s*", self.template)} <= words

    def check(self, gpu: Gpu) -> None:
        """Raise InputError for a candidate that is not there or cannot run on *gpu*."""
        if self.template is not None and not self.noted:
            raise InputError(
                "template= chooses among the candidates of a matrix product in mode "
                f"'max-autotune', and there are none for {gpu.title}"
            )
        if self.template is not None and not self.meant:
            raise InputError(
                f"no candidate {self.template!r}: there are 0 to "
                f"{len(self.noted) - 1}; without template=, the dump's candidates "
                "lists them"
            )
        for each in self.meant:
            if problem := _compiled(each, gpu).problem:
                raise InputError(
                    f"candidate {each.number} cannot run on {gpu.title}: {problem}"
                )


def _noted(number: int, choice: Any, known: dict[str, Any]) -> Candidate:
    if isinstance(choice, TritonTemplateCaller):
        request = choice.bmreq
        facts = {
            "kind": "template",
            "programs": math.prod(map(int, request.extra_args[-3:])),
            "generated": Path(request.module_path).read_text(),
        }
    else:
        library = isinstance(choice, ExternKernelCaller)
        facts = {"kind": "library" if library else "graph"}
    # Inductor numbers them through the process.
    name = re.sub(r"_\d+$", "", choice.name.removeprefix("triton_"))
    return Candidate(
        number, name=name, description=choice.description, **facts, **known
    )


def candidates(noted: Sequence[Candidate], gpu: Gpu) -> Candidates:
    """Return the candidates that were *noted*, with what their compiled code needs.

    Raises Unavailable without Triton.
    """
    sources = list(dict.fromkeys(each.generated for each in noted if each.generated))
    with progress("candidates", len(sources), "templates") as bar:
        for _ in compile.compile_ahead(sources, gpu):
            bar.update()
    return Candidates(tuple(_compiled(each, gpu) for each in noted))


def _compiled(candidate: Candidate, gpu: Gpu) -> Candidate:
    if not candidate.generated:
        return candidate
    try:
        code = compile.compile_kernel(candidate.generated, gpu)
    except InputError as error:
        return replace(candidate, problem=str(error))
    problem = ""
    if code.shared > gpu.shared_optin:
        most = size(gpu.shared_optin)
        problem = f"it needs {size(code.shared)} of shared memory a block, of {most}"
    elif not code.occupancy.blocks:
        problem = (
            f"not one block fits on a multiprocessor, by its {code.occupancy.limit}"
        )
    needs = ("config", "registers", "spills", "shared", "occupancy")
    return replace(
        candidate,
        **{name: getattr(code, name) for name in needs},
        instruction=_instruction(code.ptx),
        problem=problem,
    )


def _instruction(ptx: str) -> str:
    """Return the instruction that multiplies tiles, and the tile that it takes."""
    found = re.search(r"\b(wgmma|tcgen05|mma)\.(?:mma|sync)\S*", ptx)
    if not found:
        return "fma"
    tile = re.search(r"\.(m\d+n\d+k\d+)", found[0])
    return f"{found[1]} {tile[1]}" if tile else found[1]
