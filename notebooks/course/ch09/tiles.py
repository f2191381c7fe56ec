"""A product in tiles: what each program reads and holds, drawn and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course.drawing import BLUE, GREEN, VERMILION, Look
from helpers.gpu.gpus import find
from helpers.gpu.templates import Candidate, Candidates
from helpers.plots import COLOURS, Picture, styled
from helpers.text import Table, mark, size

Shape = tuple[int, int, int]  # rows, what is summed over, columns


def tile(candidate: Candidate) -> Shape:
    """Return BLOCK_M, BLOCK_K and BLOCK_N of a template."""
    return tuple(candidate.config.blocks[f"BLOCK_{axis}"] for axis in "MKN")


def named(candidate: Candidate) -> str:
    """Return ``64 x 128 x 32``, as Inductor writes tiles: rows, columns, depth."""
    rows, depth, columns = tile(candidate)
    return f"{rows} x {columns} x {depth}"


def stage(candidate: Candidate, itemsize: int = 2) -> int:
    """Return the bytes of one step's two tiles."""
    rows, depth, columns = tile(candidate)
    return (rows * depth + depth * columns) * itemsize


def read_by_all(candidate: Candidate, depth: int, itemsize: int = 2) -> int:
    """Return the bytes that all programs read of the two matrices, together."""
    rows, _, columns = tile(candidate)
    return candidate.programs * (rows + columns) * depth * itemsize


def between(source: str, first: str, last: str) -> str:
    """Return the lines of *source* from one with *first* to one with *last*.

    Empty lines are left out.
    """
    lines = [line.rstrip() for line in source.split("\n") if line.strip()]
    start = next(n for n, line in enumerate(lines) if first in line)
    end = next(n for n, line in enumerate(lines) if n >= start and last in line)
    indent = len(lines[start]) - len(lines[start].lstrip())
    return "\n".join(line[indent:] for line in lines[start : end + 1])


# --- tables -------------------------------------------------------------------


def needs_table(templates: Sequence[Candidate]) -> Table:
    """Return a row for each template: its sizes, what it needs, and its waves."""
    rows = []
    for each in templates:
        held: tuple[str, ...] = ("does not fit", "")
        if each.fits:
            held = mark(each.occupancy.blocks), mark(f"{each.waves:.2f}")
        stages, warps = each.config.num_stages, each.config.num_warps
        memory = size(each.shared)
        known = each.number, named(each), stages, warps, memory, each.programs
        rows.append((*known, *held))
    headings = "number, tile, stages, warps, shared, programs, blocks, waves"
    return Table.of(headings.split(", "), rows)


# --- pictures -----------------------------------------------------------------

_LEFT, _RIGHT, _RESULT = BLUE, GREEN, VERMILION


@styled
def tile_on_matrices(candidate: Candidate, shape: Shape) -> Picture:
    """Draw what one program of a template reads and writes, and one of its steps."""
    rows, depth, columns = shape
    high, deep, wide = tile(candidate)
    down, across = (rows // high) // 2, (columns // wide) // 2
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    figure.suptitle("one program of a product, and one of its steps")
    grid = figure.subplots(
        2, 2, width_ratios=(depth, columns), height_ratios=(depth, rows)
    )
    grid[0][0].axis("off")
    top, left = down * high, across * wide
    step = depth // deep // 3 * deep
    a, b, c = grid[1][0], grid[0][1], grid[1][1]
    _matrix(a, f"x: {rows} x {depth}", (rows, depth))
    _matrix(b, f"weight, transposed: {depth} x {columns}", (depth, columns))
    _matrix(c, f"result: {rows} x {columns}", (rows, columns), (high, wide))
    _box(a, _LEFT, (top, 0), (high, depth), faint=True)
    _box(a, _LEFT, (top, step), (high, deep))
    _box(b, _RIGHT, (0, left), (depth, wide), faint=True)
    _box(b, _RIGHT, (step, left), (deep, wide))
    _box(c, _RESULT, (top, left), (high, wide))
    grid[0][0].legend(
        handles=_handles(high, deep, wide), loc="center", fontsize=13, frameon=False
    )
    words = (
        f"One program of template {candidate.number} computes a tile of {high} x "
        f"{wide} numbers of the result. It walks along {high} rows of x and {wide} "
        f"columns of the weight in {-(-depth // deep)} steps of {deep}, and holds a "
        f"tile of each, {high} x {deep} and {deep} x {wide}, in each step. "
        f"{candidate.programs} programs cover the result."
    )
    return Picture(figure, words)


def _handles(high: int, deep: int, wide: int) -> list[Rectangle]:
    names = {
        f"one step of x: {high} x {deep}": _LEFT,
        f"one step of the weight: {deep} x {wide}": _RIGHT,
        f"the program's tile: {high} x {wide}": _RESULT,
    }
    return [
        Rectangle((0, 0), 1, 1, label=name, **_fill(look))
        for name, look in names.items()
    ]


def _fill(look: Look, faint: bool = False) -> dict[str, Any]:
    shown = {"facecolor": look.fill, "edgecolor": "white", "hatch": look.hatch}
    return {**shown, "alpha": 0.3} if faint else shown


def _matrix(
    axes: Axes, title: str, shape: tuple[int, int], tiles: tuple[int, int] = (0, 0)
) -> None:
    rows, columns = shape
    axes.set_title(title, fontsize=14)
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal", xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
    for place in range(tiles[0], rows, tiles[0]) if tiles[0] else ():
        axes.axhline(place, color="#BBBBBB", lw=0.7)
    for place in range(tiles[1], columns, tiles[1]) if tiles[1] else ():
        axes.axvline(place, color="#BBBBBB", lw=0.7)


def _box(
    axes: Axes,
    look: Look,
    corner: tuple[int, int],
    extent: tuple[int, int],
    faint: bool = False,
) -> None:
    (top, left), (high, wide) = corner, extent
    axes.add_patch(Rectangle((left, top), wide, high, **_fill(look, faint)))


@styled
def all_templates(candidates: Candidates, depth: int) -> Picture:
    """Draw what all programs of each template read, and where they have a place."""
    fit = [each for each in candidates.templates if each.fits]
    fit.sort(key=lambda each: read_by_all(each, depth))
    many = find(fit[0].gpu).multiprocessors
    read = [read_by_all(each, depth) / (1 << 20) for each in fit]
    busy = [min(each.programs, many) for each in fit]
    figure = Figure(figsize=(11, 7.4), layout="constrained")
    figure.suptitle("what each template reads, and how many multiprocessors it fills")
    left, right = figure.subplots(1, 2, sharey=True)
    places = range(len(fit))
    left.barh(places, read, color=COLOURS[0])
    left.set(xlabel="MiB of x and weight that all programs read")
    right.barh(places, busy, color=COLOURS[1], hatch="//", edgecolor="white")
    right.set(xlabel=f"multiprocessors with a program, of {many}")
    right.axvline(many, color="black", ls=":")
    left.set_yticks(places, [f"{each.number}: {named(each)}" for each in fit])
    left.set_ylim(len(fit) - 0.5, -0.5)
    for axes in (left, right):
        axes.grid(axis="y", visible=False)
    said = [
        f"{each.number}, {named(each)}: {mib:.4g} MiB, {n} multiprocessors"
        for each, mib, n in zip(fit, read, busy, strict=True)
    ]
    words = "What all programs of a template read, and how many multiprocessors work. "
    return Picture(figure, f"{words}{'; '.join(said)}.")
