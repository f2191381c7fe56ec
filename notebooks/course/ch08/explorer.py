"""How a generated kernel changes with the program, the type and the GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import torch

from course.gpu_code import access_sizes
from helpers.codegen import folded
from helpers.errors import InputError
from helpers.gpu.dump import dump_triton
from helpers.results import TableResult
from helpers.text import Table, mark, size, watched

Make = Callable[[int], Callable[..., Any]]
ELEMENTS = 1 << 20


def explore(
    make: Make,
    gpus: Sequence[str] = ("h100", "a100", "t4"),
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16),
    lengths: Sequence[int] = (1, 2, 4, 8),
) -> Explorer:
    """Return how the kernel of ``make(n)`` changes with n, the type and the GPU.

    ``make(n)`` returns a function of one tensor, which gets `ELEMENTS` numbers.  The
    table has the shortest and the longest program, of each type, on the first GPU,
    and the longest on the others.  A live notebook shows sliders for all of
    *lengths*, *dtypes* and *gpus*.  Source: `dump_triton` and Triton's compiler.

    Raises InputError and Unavailable as `dump_triton` does.
    """
    setting = cache(partial(_setting, make))
    ends = dict.fromkeys((min(lengths), max(lengths)))
    keys = [(gpus[0], *pair) for pair in itertools.product(dtypes, ends)]
    keys += [(gpu, dtypes[0], max(lengths)) for gpu in gpus[1:]]
    settings = tuple(setting(*key) for key in keys)
    return Explorer(settings, (setting, gpus, dtypes, lengths))


@dataclass(frozen=True)
class Setting:
    """The kernels of one program: *length* operations on *dtype*, for *gpu*.

    *load_bytes* is the widest load of one thread in the PTX; *registers* are of a
    thread and *occupancy* is the share of warps, of the kernel that moves the most.
    """

    gpu: str
    dtype: str
    length: int
    kernels: int
    loads: int
    stores: int
    bytes: int
    block: str
    load_bytes: int
    registers: int
    occupancy: float
    source: str


_HEADINGS = ("GPU", "dtype", "length", "kernels", "loads", "stores", "bytes", "block")
_HEADINGS += ("widest load", "registers", "occupancy")


@dataclass(frozen=True, repr=False)
class Explorer(TableResult):
    """Settings computed in advance; in a live notebook, a widget below their table."""

    settings: tuple[Setting, ...]
    choices: tuple[Any, ...] = field(default=(), compare=False)
    """What the widget asks and offers; in no file, which has no program to ask."""

    def to_json(self) -> str:
        """Return JSON text with the settings alone."""
        return TableResult.to_json(replace(self, choices=()))

    def table(self) -> Table:
        """Return a row for each setting; what ptxas decides is marked."""
        rows = []
        for s in self.settings:
            moved = (s.kernels, s.loads, s.stores, size(s.bytes), s.block)
            used = mark(s.registers), mark(f"{s.occupancy:.0%}")
            load = f"{s.load_bytes} B"
            rows.append((s.gpu, s.dtype, s.length, *moved, load, *used))
        return Table.of(_HEADINGS, rows)

    def _repr_html_(self) -> str:
        last = self.settings[-1]
        title = f"{last.gpu}, {last.dtype}, length {last.length}"
        return super()._repr_html_() + folded(title, [("python", last.source)])

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data = {"text/plain": str(self), "text/html": self._repr_html_()}
        display(data, raw=True)
        # Not where a notebook is saved by a script: without its kernel it is dead.
        if self.choices and watched():
            live = self.widget()._repr_mimebundle_()
            asleep = "In a live notebook, sliders stand here."  # in other programs
            display(live | {"text/plain": asleep}, raw=True)

    def widget(self) -> Any:
        """Return lists of GPUs and types, a slider for the length, and their table."""
        import ipywidgets
        from IPython.display import display

        setting, gpus, dtypes, lengths = self.choices

        def show(gpu: str, dtype: torch.dtype, length: int) -> None:
            display(Explorer((setting(gpu, dtype, length),)))

        slider = ipywidgets.SelectionSlider(options=lengths, continuous_update=False)
        types = [(_short(dtype), dtype) for dtype in dtypes]
        return ipywidgets.interactive(show, gpu=list(gpus), dtype=types, length=slider)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _setting(make: Make, gpu: str, dtype: torch.dtype, length: int) -> Setting:
    dump = dump_triton(make(length), torch.ones(ELEMENTS, dtype=dtype), gpu=gpu)
    if not dump.kernels:
        raise InputError(f"make({length}) becomes no Triton kernel on {gpu}")
    code = max(dump.kernels, key=lambda kernel: kernel.bytes).on()
    return Setting(
        gpu=gpu,
        dtype=_short(dtype),
        length=length,
        kernels=len(dump.kernels),
        loads=sum(kernel.loads for kernel in dump.kernels),
        stores=sum(kernel.stores for kernel in dump.kernels),
        bytes=dump.bytes,
        block=str(code.config),
        load_bytes=max(access_sizes(code.ptx), default=0),
        registers=code.registers,
        occupancy=code.occupancy.fraction,
        source="\n".join(kernel.source for kernel in dump.kernels),
    )
