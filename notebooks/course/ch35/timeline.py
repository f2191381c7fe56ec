"""What torch's recorder did with each call, drawn as a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course.ch35.driver import Step
from course.drawing import BLUE, EMPTY, GREY, VERMILION, Piece, bars
from helpers.plots import Picture, styled

_LOOKS = {"warm-up": GREY, "record": VERMILION, "replay": BLUE, "as it is": EMPTY}


@styled
def draw(rows: Mapping[str, Sequence[Step]]) -> Picture:
    """Return a box for each run of a graph, in order, a row for each program."""
    pieces = {
        name: [Piece(step.what, 1, step.what) for step in steps]
        for name, steps in rows.items()
    }
    words = [f"{name}: {', '.join(map(_what, s))}." for name, s in rows.items()]
    seen = {step.what for steps in rows.values() for step in steps}
    picture = bars(
        pieces,
        {what: look for what, look in _LOOKS.items() if what in seen},
        unit="runs of a graph, in order (not to scale of time)",
        alt=" ".join(words),
        above=True,
    )
    [axes] = picture.figure.axes
    axes.set_xticks([])
    return picture


def _what(step: Step) -> str:
    return step.what
