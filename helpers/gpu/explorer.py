"""How a generated kernel changes with the program, the type and the GPU."""

from __future__ import annotations

import html
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import torch

from helpers.codegen import folded
from helpers.errors import InputError
from helpers.gpu.dump import dump_triton
from helpers.results import Result
from helpers.text import Table, count, mark, pre, size

Make = Callable[[int], Callable[..., Any]]


def explore(
    make: Make,
    gpus: Sequence[str] = ("h100", "a100", "t4"),
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16),
    lengths: Sequence[int] = (1, 2, 4, 8),
    elements: int = 1 << 20,
) -> Explorer:
    """Return how the kernel of ``make(n)`` changes with n, the type and the GPU.

    ``make(n)`` returns a function of one tensor, which gets *elements* numbers.  The
    table has the shortest and the longest program, of each type, on the first GPU,
    and the longest on the others.  A live notebook shows sliders for all of
    *lengths*, *dtypes* and *gpus*.  Source: `dump_triton` and Triton's compiler.

    Raises InputError and Unavailable as `dump_triton` does.
    """
    if not (callable(make) and gpus and dtypes and lengths):
        raise InputError(
            "explore wants a function of n that returns a function of one tensor, and "
            "at least one GPU, dtype and length: explore(make, lengths=(1, 2, 4))"
        )
    live = Live(make, tuple(gpus), tuple(dtypes), tuple(lengths), elements)
    ends = dict.fromkeys((min(lengths), max(lengths)))
    keys = [(gpus[0], *pair) for pair in itertools.product(dtypes, ends)]
    keys += [(gpu, dtypes[0], max(lengths)) for gpu in gpus[1:]]
    result = Explorer(tuple(live.at(*key) for key in keys))
    object.__setattr__(result, "live", live)
    return result


@dataclass(frozen=True, repr=False)
class Setting(Result):
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

    def row(self) -> tuple[Any, ...]:
        """Return the cells of a table row; what ptxas decides is marked."""
        moved = (self.kernels, self.loads, self.stores, size(self.bytes), self.block)
        used = mark(self.registers), mark(f"{self.occupancy:.0%}")
        return self.gpu, self.dtype, self.length, *moved, f"{self.load_bytes} B", *used


_HEADINGS = ("GPU", "dtype", "length", "kernels", "loads", "stores", "bytes", "block")
_HEADINGS += ("widest load", "registers", "occupancy")
# What other programs show in place of the widget.
_ASLEEP = "In a live notebook, sliders stand here."
# JupyterLab ignores that in a notebook that is opened again, and puts an error, a bare
# text, in place of a widget whose kernel has gone.  The table above it is enough.
_NO_DEAD_WIDGET = (
    '<style class="explored">.jp-OutputArea:has(.explored) '
    ".jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none }</style>"
)


@dataclass(frozen=True, repr=False)
class Explorer(Result):
    """Settings computed in advance; in a live notebook, a widget below their table."""

    settings: tuple[Setting, ...]
    live = None  # not a field: a stored result has no program to ask

    def table(self) -> Table:
        """Return a row for each setting."""
        return Table.of(_HEADINGS, [setting.row() for setting in self.settings])

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        last = self.settings[-1]
        title = f"{last.gpu}, {last.dtype}, length {last.length}"
        return self.table()._repr_html_() + folded(title, [("python", last.source)])

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data = {"text/plain": str(self), "text/html": self._repr_html_()}
        # Not where a notebook is saved by a script: without its kernel it is dead.
        quiet = os.environ.get("COURSE_QUIET") == "1"
        if not self.live or "ipykernel" not in sys.modules or quiet:
            display(data, raw=True)
            return
        widget = self.live.widget._repr_mimebundle_()
        display(data | {"text/html": data["text/html"] + _NO_DEAD_WIDGET}, raw=True)
        display(widget | {"text/plain": _ASLEEP, "text/html": pre(_ASLEEP)}, raw=True)


@dataclass
class Live:
    """Asks for settings, each computed once, also from a widget."""

    make: Make
    gpus: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    lengths: tuple[int, ...]
    elements: int

    def __post_init__(self) -> None:
        self.at = cache(partial(_setting, self.make, self.elements))

    @cached_property
    def widget(self) -> Any:
        """A slider for the length, lists of types and GPUs, and what they give."""
        import ipywidgets

        types = [(_short(dtype), dtype) for dtype in self.dtypes]
        gpu = ipywidgets.Dropdown(options=self.gpus, description="GPU")
        dtype = ipywidgets.Dropdown(options=types, description="dtype")
        length = ipywidgets.SelectionSlider(
            options=self.lengths, description="length", continuous_update=False
        )
        shown, status = ipywidgets.HTML(), ipywidgets.HTML()

        def show(_: Any = None) -> None:
            key = gpu.value, dtype.value, length.value
            words = html.escape(f"{key[0]}, {_short(key[1])}, length {key[2]}")
            status.value = f"<progress></progress> {words}: compiling"
            try:
                setting = self.at(*key)
                title, code = count(setting.kernels, "kernel"), setting.source
                table = Table.of(_HEADINGS, [setting.row()])._repr_html_()
                shown.value = table + folded(title, [("python", code)])
            except Exception as error:  # whatever a reader's function raises
                reason = str(error).strip().split("\n")[0]
                shown.value = pre(f"{type(error).__name__}: {reason}")
            status.value = words

        for control in (gpu, dtype, length):
            control.observe(show, "value")
        show()
        controls = ipywidgets.HBox([gpu, dtype, length])
        return ipywidgets.VBox([controls, status, shown])


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _setting(
    make: Make, elements: int, gpu: str, dtype: torch.dtype, length: int
) -> Setting:
    dump = dump_triton(make(length), torch.ones(elements, dtype=dtype), gpu=gpu)
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
        load_bytes=widest_load(code.ptx),
        registers=code.registers,
        occupancy=code.occupancy.fraction,
        source="\n".join(kernel.source for kernel in dump.kernels),
    )


def widest_load(ptx: str) -> int:
    """Return the bytes of the widest load from global memory that one thread does."""
    loads = re.findall(r"\bld\.global\S*?(?:\.v(\d))?\.[bfsu](\d+)\s", ptx)
    return max((int(n or 1) * int(bits) // 8 for n, bits in loads), default=0)
