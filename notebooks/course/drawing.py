"""The drawing of the lessons: bars made of pieces.

    bars({"eager": [("library", 3), ("kernel", 5)], "compiled": ...},
         {"library": BLUE, "kernel": VERMILION}, unit="MiB", alt="...")

It returns a Picture.  What a lesson wants besides, it adds to
``picture.figure.axes[0]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from helpers.plots import CEILING, COLOURS, Picture, styled


@dataclass(frozen=True)
class Look:
    """How a kind of pieces is drawn; *height* is a share of a row's."""

    fill: str
    hatch: str = ""
    ink: str = "white"  # of the words in it
    edge: str = "white"
    height: float = 0.75


# Each colour with a hatch of its own, for who cannot tell the colours apart.
BLUE = Look(COLOURS[0])
VERMILION = Look(COLOURS[1], "//")
GREEN = Look(CEILING, "..")
GREY = Look("#DDDDDD", ink="#222222")


class Piece(NamedTuple):
    """A piece of a bar, with words in it; it begins where the last one ends.

    A tuple of its kind and its length will do.
    """

    kind: str
    length: float
    words: str = ""
    start: float | None = None


Looks = Mapping[str, Look]
Rows = Mapping[str, Iterable[Piece | tuple[str, float]]]


@styled
def bars(
    rows: Rows,
    looks: Looks,
    *,
    alt: str,
    unit: str,
    ends: Sequence[str] = (),
    above: bool = False,
    legend: str = "outside lower left",
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
            how = {"left": start, "height": share * look.height, **_fill(look)}
            axes.barh(row, piece.length, **how)
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


def add_legend(figure: Figure, looks: Looks, where: str) -> None:
    """Name the kinds at *where* of the figure, as ``figure.legend`` calls it."""
    marks = [Patch(**_fill(look)) for look in looks.values()]
    columns = 2 if len("".join(looks)) > 85 else min(len(looks), 5)
    figure.legend(marks, list(looks), loc=where, ncols=columns)


def _fill(look: Look) -> dict[str, object]:
    edge = {"edgecolor": look.edge, "linewidth": 0.8}
    return {"facecolor": look.fill, "hatch": look.hatch, **edge}


def _words(axes: Axes, x: float, y: float, words: str, look: Look) -> None:
    """Write into a piece; no hatch crosses the letters."""
    if words:
        box = {"facecolor": look.fill, "edgecolor": "none", "pad": 2}
        style = {"color": look.ink, "bbox": box if look.hatch else None}
        axes.text(x, y, words, ha="center", va="center", **style)
