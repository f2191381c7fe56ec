"""Reductions over rows: how Inductor chooses, and what its kernels need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any
from unittest import mock

import torch
from matplotlib.figure import Figure
from torch._inductor.choices import InductorChoices

from helpers import dump_triton
from helpers.gpu.dump import DumpedKernel
from helpers.gpu.gpus import find
from helpers.plots import COLOURS, SHAPES, Picture, styled
from helpers.text import Table, mark, size

_NAMES = {"reduction": "looped", "persistent reduction": "persistent"}


@contextlib.contextmanager
def always_persistent() -> Iterator[None]:
    """Let Inductor keep each row in one block, however long it is."""
    name = "should_use_persistent_reduction"
    yes = staticmethod(lambda *_: True)
    with mock.patch.object(InductorChoices, name, yes):
        yield


def reads(kernel: DumpedKernel) -> int:
    """Return how often the text of a kernel loads from its first input."""
    return kernel.source.count("tl.load(in_ptr0")


def reduction_table(kernels: dict[Any, Sequence[DumpedKernel]]) -> Table:
    """Return a row for each kernel: its kind, programs, loads and bytes."""
    rows = []
    for name, several in kernels.items():
        for k in several:
            loads = k.source.count("tl.load("), k.loads
            rows.append((name, k.kind, k.grid[0], *loads, size(k.bytes)))
    headings = "case, kind, programs, loads in the code, loads counted, bytes"
    return Table.of(headings.split(", "), rows)


def resident(kernel: DumpedKernel) -> int:
    """Return how many warps of a launch a multiprocessor has at a time, at most.

    The launch has the GPU for itself, and its programs are spread evenly.
    """
    each = -(-prod(kernel.grid) // find(kernel.gpu).multiprocessors)
    held = kernel.occupancy
    return min(each, held.blocks) * held.warps // held.blocks


def needs_table(kernels: dict[str, DumpedKernel], *, warps: bool = True) -> Table:
    """Return what each kernel needs of a multiprocessor, and the *warps* there."""
    needs = ["kernel", "bytes", "registers a thread", "spills"]
    if warps:
        needs += ["shared bytes", "occupancy", "may hold", "resident", "limited by"]
    rows = []
    for name, k in kernels.items():
        held = k.occupancy
        used = k.registers, k.spills, k.shared, f"{held.fraction:.0%}"
        used += held.warps, resident(k)
        row = name, size(k.bytes), *map(mark, used), held.limit
        rows.append(row[: len(needs)])
    return Table.of(needs, rows)


@styled
def registers_by_length(
    fn: Callable[..., Any], rows: int, lengths: Sequence[int]
) -> Picture:
    """Draw registers and occupancy of *fn*'s kernel against the row length."""
    points = {}
    for length in lengths:
        [kernel] = dump_triton(fn, torch.randn(rows, length)).kernels
        points[length] = kernel
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    sides = figure.subplots(1, 2)
    words = []
    kinds = dict.fromkeys(kernel.kind for kernel in points.values())
    for place, kind in enumerate(kinds):
        own = {n: k for n, k in points.items() if k.kind == kind}
        values = (
            [kernel.registers for kernel in own.values()],
            [100 * kernel.occupancy.fraction for kernel in own.values()],
        )
        look = {
            "color": COLOURS[place],
            "marker": SHAPES[place],
            "label": _NAMES.get(kind, kind),
        }
        for axes, numbers in zip(sides, values, strict=True):
            axes.plot(list(own), numbers, **look)
        words += [
            f"{n} columns, {kind}: {mark(k.registers)} registers, "
            f"{mark(f'{k.occupancy.fraction:.0%}')}"
            for n, k in own.items()
        ]
    for axes, title in zip(
        sides, ("registers of a thread", "occupancy, %"), strict=True
    ):
        axes.set_xscale("log", base=2)
        axes.set(title=title, xlabel="columns", ylim=(0, None))
        axes.set_xticks(lengths[::2], [str(n) for n in lengths[::2]])
        axes.minorticks_off()
    sides[1].set_ylim(0, 108)
    handles = sides[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=2)
    return Picture(figure, f"Softmax of {rows} rows. {'; '.join(words)}.")
