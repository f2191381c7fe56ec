"""What a lesson reads in the code of a GPU kernel, from Triton to SASS."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from helpers.gpu.dump import DumpedKernel
from helpers.plots import COLOURS, Picture, styled
from helpers.text import Table


def widths(kernel: DumpedKernel, kind: str = "ld") -> Counter[int]:
    """Return how many loads (or ``st``) of a thread move how many bytes."""
    ptx = kernel.ptx
    found = re.findall(rf"\b{kind}\.global\S*?(?:\.v(\d))?\.[bfsu](\d+)\s", ptx)
    return Counter(int(n or 1) * int(bits) // 8 for n, bits in found)


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
        f"takes a block of x with {x} rows of {y} neighbors, and writes it "
        f"to the mirrored place of the result, {y} rows of {x} neighbors."
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
    for line in range(4):  # what neighbors in memory are
        height = corner[1] + high * (line + 0.5) / 4
        ends = (corner[0] + 3, height), (corner[0] + wide - 3, height)
        look = {"arrowstyle": "->", "color": "white", "lw": 2}
        axes.annotate("", ends[1], ends[0], arrowprops=look)
