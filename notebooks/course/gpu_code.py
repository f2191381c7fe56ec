"""What a lesson reads in the code of a GPU kernel, from Triton to SASS."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.drawing import BLUE, Look, Piece, bars
from helpers.codegen import folded
from helpers.gpu import gpus
from helpers.gpu.compile import compile_kernel
from helpers.gpu.dump import DumpedKernel
from helpers.plots import COLOURS, Picture, styled
from helpers.text import Table, mark


def as_written(kernel: DumpedKernel) -> str:
    """Return a kernel as Inductor wrote it, the machine's hash marked."""
    text = kernel.generated.strip()
    return re.sub(r"'[0-9A-F]{64}'", lambda found: mark(found[0]), text)


class AsWritten:
    """A kernel as Inductor wrote it, decorator included: folded."""

    def __init__(self, kernel: DumpedKernel) -> None:
        self._text = as_written(kernel)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        title = "The kernel that Inductor wrote, and its decorator"
        return folded(title, [("python", self._text)], shut=True)


def access_sizes(ptx: str, kind: str = "ld") -> list[int]:
    """Return the bytes of each load (or ``st``) of one thread, in global memory."""
    found = re.findall(rf"\b{kind}\.global\S*?(?:\.v(\d))?\.[bfsu](\d+)\s", ptx)
    return [int(n or 1) * int(bits) // 8 for n, bits in found]


def widths(kernel: DumpedKernel, kind: str = "ld", **which: Any) -> Counter[int]:
    """Return how many loads (or ``st``) of a thread move how many bytes."""
    return Counter(access_sizes(kernel.on(**which).ptx, kind))


def said(found: Counter[int]) -> str:
    """Return ``4 x 16 B`` and the like."""
    pairs = sorted(found.items(), reverse=True)
    return " + ".join(f"{n} x {size} B" for size, n in pairs)


def access_table(named: dict[str, DumpedKernel]) -> Table:
    """Return a row for each kernel: its mask, and what a thread moves."""
    rows = []
    for name, kernel in named.items():
        moved = said(widths(kernel)), said(widths(kernel, "st"))
        rows.append((name, "yes" if "mask" in kernel.source else "no", *moved))
    return Table.of(["case", "mask", "loads", "stores"], rows)


def promises(kernel: DumpedKernel) -> str:
    """Return what a kernel's decorator promises of its arguments."""
    return re.search(r"'configs': \[.*?\}\]", kernel.generated)[0]


def config_table(kernel: DumpedKernel) -> Table:
    """Return a row for each config: what one of its threads works on."""
    rows = []
    for i, config in enumerate(kernel.configs):
        code = kernel.on(config=i)
        numbers = config.blocks["XBLOCK"] // code.threads
        loads = said(widths(kernel, config=i))
        rows.append((config, numbers, loads, mark(code.registers)))
    headings = "config, numbers a thread, loads of a thread, registers"
    return Table.of(headings.split(", "), rows)


def same_machine_code(kernel: DumpedKernel) -> bool:
    """Return whether the tidied text gives the same PTX as Inductor's."""
    own = compile_kernel(kernel.module, gpus.find(kernel.gpu), kernel.chosen)
    return _body(own.ptx) == _body(kernel.ptx)


def same_ptx(kernel: DumpedKernel, one: str, other: str) -> bool:
    """Return whether two GPUs get the same PTX, but for its header."""
    return _body(kernel.on(one).ptx) == _body(kernel.on(other).ptx)


def _body(ptx: str) -> str:
    """Return PTX without comments and the lines that name its target."""
    ptx = re.sub(r"^\.(version|target) .*$", "", ptx, flags=re.M)
    return re.sub(r"\s*//.*", "", ptx)


def in_ptx(kernel: DumpedKernel, *words: str) -> dict[str, int]:
    """Return how often each word occurs in a kernel's PTX."""
    return {word: kernel.ptx.count(word) for word in words}


def instructions(code: str, pattern: str) -> Counter[str]:
    """Return how often each instruction that begins with *pattern* occurs."""
    names = re.findall(r"^\w+  (?:@!?\w+ )?([A-Z][\w.]*)", code, re.M)
    return Counter(name for name in names if re.match(pattern, name))


@styled
def programs_on(kernel: DumpedKernel, elements: int) -> Picture:
    """Draw which elements each program of a one-dimensional grid takes."""
    step, programs = kernel.configs[0].blocks["XBLOCK"], kernel.grid[0]
    beyond = programs * step - elements
    rows = {}
    for number in range(programs):
        first, end = number * step, min((number + 1) * step, elements)
        words = f"{first} to {end - 1}"
        rows[str(number)] = [Piece("elements", end - first, words, start=first)]
    if beyond:
        rows[str(programs - 1)].append(Piece("masked", beyond))
    picture = bars(
        rows,
        {"elements": BLUE, "masked": Look("white", "////", edge=COLOURS[1])},
        unit="xindex, the element",
        title="which elements each program computes",
        alt=f"{programs} programs of {step} elements cover {elements} elements; "
        f"{beyond} places of the last are masked.",
        legend="outside upper right",
        size=(10, 3.6),
    )
    [axes] = picture.figure.axes
    axes.set_ylabel("program_id(0)")
    axes.axvline(elements, color="black", ls=":")
    beside = {"xytext": (-6, -14), "textcoords": "offset points", "ha": "right"}
    axes.annotate(f"xnumel = {elements}", (elements, -0.5), **beside)
    return picture


@styled
def tile_on(kernel: DumpedKernel, rows: int, columns: int) -> Picture:
    """Draw a block of a transposing kernel on its input and its result."""
    blocks = kernel.configs[0].blocks
    x, y = blocks["XBLOCK"], blocks["YBLOCK"]
    across, down = 1, 3  # program_id(0) and program_id(1) of the block shown
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    ratio = {"width_ratios": (columns, rows)}
    sides = figure.subplots(1, 2, gridspec_kw=ratio)
    _tiles(sides[0], "x, read", (rows, columns), (x, y), (across, down))
    shape = (columns, rows)
    _tiles(sides[1], "the result", shape, (y, x), (down, across))
    words = (
        f"Program ({across}, {down}) of {kernel.grid[0]} by {kernel.grid[1]} "
        f"takes a block of x with {x} rows of {y} neighbours, and writes it "
        f"to the mirrored place of the result, {y} rows of {x} neighbours."
    )
    return Picture(figure, words)


def _tiles(
    axes: Any,
    title: str,
    shape: tuple[int, int],
    tile: tuple[int, int],
    at: tuple[int, int],
) -> None:
    """Draw a matrix with its blocks, and fill the one *at* row and column."""
    rows, columns = shape
    high, wide = tile
    axes.set(title=f"{title}: {rows} x {columns}", aspect="equal")
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.set_xticks(range(0, columns + 1, wide))
    axes.set_yticks(range(0, rows + 1, high))
    axes.grid(color="#888888")
    corner = (at[1] * wide, at[0] * high)
    axes.add_patch(Rectangle(corner, wide, high, color=COLOURS[1]))
    for line in range(4):  # what neighbours in memory are
        height = corner[1] + high * (line + 0.5) / 4
        ends = (corner[0] + 3, height), (corner[0] + wide - 3, height)
        look = {"arrowstyle": "->", "color": "white", "lw": 2}
        axes.annotate("", ends[1], ends[0], arrowprops=look)
