"""The two drawings of the lessons: bars made of pieces, and a grid of cells.

    bars({"eager": [("library", 3), ("kernel", 5)], "compiled": ...},
         {"library": BLUE, "kernel": VERMILION}, unit="MiB", alt="...")
    grid({"one bug": {"eager": "right", "inductor": "wrong"}, ...},
         {"right": DOT, "wrong": CROSS}, alt="...")

Both return a Picture.  What a lesson wants besides, it adds to
``picture.figure.axes[0]``.  For several panels, ``draw_bars`` and ``draw_grid``
draw on axes that are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from helpers.plots import CEILING, COLOURS, Picture, styled


@dataclass(frozen=True)
class Look:
    """How a kind of pieces or cells is drawn.

    *height* is a share of a row's.  With a *mark*, one of matplotlib's markers,
    a cell is that mark, *points* wide, and not a filled box.
    """

    fill: str
    hatch: str = ""
    ink: str = "white"  # of the words in it
    edge: str = "white"
    line: float = 0.8  # how wide the edge is, in points
    height: float = 0.75
    mark: str = ""
    points: float = 15


# Each colour with a hatch of its own, for who cannot tell the colours apart.
BLUE = Look(COLOURS[0])
VERMILION = Look(COLOURS[1], "//")
GREEN = Look(CEILING, "..")
GREY = Look("#DDDDDD", ink="#222222")
EMPTY = Look("white", ink="#555555", edge="#555555")
DOT = Look(COLOURS[0], mark="o")
CROSS = Look(COLOURS[1], mark="X", points=17)


class Piece(NamedTuple):
    """A piece of a bar, with words in it; it begins where the last one ends.

    A tuple of its kind and its length will do.
    """

    kind: str
    length: float
    words: str = ""
    start: float | None = None


class Cell(NamedTuple):
    """A cell of a grid, with words in it; without words, its kind will do."""

    kind: str
    words: str


Looks = Mapping[str, Look]
Rows = Mapping[str, Iterable[Piece | tuple[str, float]]]
Cells = Mapping[str, Mapping[str, Cell | str]]


@styled
def bars(
    rows: Rows,
    looks: Looks,
    *,
    alt: str,
    unit: str,
    ends: Sequence[str] = (),
    above: bool = False,
    legend: str | None = "outside lower left",
    title: str = "",
    size: tuple[float, float] | None = None,
) -> Picture:
    """Return a horizontal bar for each of *rows*, the first on top.

    *looks* gives each kind of pieces its look, and the legend its order, and
    *unit* labels the axis below.  *title* says what is drawn.  *ends* are words at
    the end of each bar.  *above* sets the names of the rows above their bars and
    not to the left of them.  *size* is that of the figure, in inches.
    """
    high = 0.9 + 1.15 * len(rows) if above else 1.5 + 0.62 * len(rows)
    figure = Figure(figsize=size or (11, high), layout="constrained")
    axes = figure.subplots()
    draw_bars(axes, rows, looks, ends=ends, above=above)
    axes.set_xlabel(unit)
    axes.set_title(title)
    if legend:
        add_legend(figure, looks, legend)
    return Picture(figure, alt)


def draw_bars(
    axes: Axes,
    rows: Rows,
    looks: Looks,
    *,
    ends: Sequence[str] = (),
    above: bool = False,
) -> None:
    """Draw what ``bars`` shows on axes of a figure."""
    share = 0.7 if above else 1  # leaves room for the names
    for row, (name, pieces) in enumerate(rows.items()):
        end = 0.0
        for piece in (Piece(*each) for each in pieces):
            start = end if piece.start is None else piece.start
            look, end = looks[piece.kind], start + piece.length
            axes.barh(row, piece.length, left=start, **_box(look, share))
            _words(axes, start + piece.length / 2, row, piece.words, look)
        if ends:
            beside = {"xytext": (6, 0), "textcoords": "offset points"}
            axes.annotate(ends[row], (end, row), va="center", **beside)
        if above:
            axes.text(0, row - 0.33, name, va="bottom", size=15)
    axes.set(ylim=(len(rows) - 0.5, -0.8 if above else -0.5))
    axes.set_yticks([] if above else range(len(rows)), [] if above else rows)
    axes.margins(x=0.12 if ends else 0.02)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(not above)


@styled
def grid(
    cells: Cells,
    looks: Looks,
    *,
    alt: str,
    legend: str | None = None,
    title: str = "",
    size: tuple[float, float] | None = None,
) -> Picture:
    """Return a grid: its rows with their names, columns with theirs on top.

    A cell that a row lacks stays empty.  *looks* gives each kind of cells its
    look, and *legend* is where the kinds are named.  *title* says what is drawn.
    *size* is that of the figure, in inches.
    """
    high = 1.3 + 0.5 * len(cells)
    figure = Figure(figsize=size or (11, high), layout="constrained")
    draw_grid(figure.subplots(), cells, looks)
    figure.axes[0].set_title(title, pad=12)
    if legend:
        add_legend(figure, looks, legend)
    return Picture(figure, alt)


def draw_grid(axes: Axes, cells: Cells, looks: Looks) -> None:
    """Draw what ``grid`` shows on axes of a figure."""
    columns = list(dict.fromkeys(name for row in cells.values() for name in row))
    for row, given in enumerate(cells.values()):
        for name, cell in given.items():
            kind, words = (cell, "") if isinstance(cell, str) else cell
            _cell(axes, columns.index(name), row, words, looks[kind])
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(cells)), cells)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(cells) - 0.5, -0.5))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def add_legend(figure: Figure, looks: Looks, where: str) -> None:
    """Name the kinds at *where* of the figure, as ``figure.legend`` calls it."""
    marks = [
        Line2D([], [], **_mark(look)) if look.mark else Patch(**_fill(look))
        for look in looks.values()
    ]
    columns = 2 if len("".join(looks)) > 85 else min(len(looks), 5)
    figure.legend(marks, list(looks), loc=where, ncols=columns)


# --- parts of both ----------------------------------------------------------


def _box(look: Look, share: float = 1) -> dict[str, object]:
    return {"height": share * look.height, **_fill(look)}


def _fill(look: Look) -> dict[str, object]:
    return {
        "facecolor": look.fill,
        "hatch": look.hatch,
        "edgecolor": look.edge,
        "linewidth": look.line,
    }


def _mark(look: Look) -> dict[str, object]:
    return {
        "marker": look.mark,
        "color": look.fill,
        "markersize": look.points,
        "linestyle": "",
    }


def _cell(axes: Axes, column: int, row: int, words: str, look: Look) -> None:
    if look.mark:
        axes.plot(column, row, **_mark(look))
    else:
        axes.barh(row, 0.94, left=column - 0.47, **_box(look))
    _words(axes, column, row, words, look)


def _words(axes: Axes, x: float, y: float, words: str, look: Look) -> None:
    """Write into a piece or a cell; no hatch crosses the letters."""
    if words:
        box = {"facecolor": look.fill, "edgecolor": "none", "pad": 2}
        style = {"color": look.ink, "bbox": box if look.hatch else None}
        axes.text(x, y, words, ha="center", va="center", **style)
