"""What torch's recorder did with each call, drawn as a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from course.ch13.driver import Step
from course.drawing import BLUE, EMPTY, GREY, VERMILION, Piece, bars
from helpers.plots import Picture, styled

_LOOKS = {"warm-up": GREY, "record": VERMILION, "replay": BLUE, "as it is": EMPTY}


@styled
def draw(rows: Mapping[str, Sequence[Step]]) -> Picture:
    """Return a box for each run of a graph, in order, a row for each program."""
    did = {name: [step.what for step in steps] for name, steps in rows.items()}
    words = [f"{name}: {', '.join(what)}." for name, what in did.items()]
    picture = bars(
        {name: [Piece(one, 1, one) for one in what] for name, what in did.items()},
        {what: _LOOKS[what] for what in _LOOKS if what in chain(*did.values())},
        unit="runs of a graph, in order (not to scale of time)",
        title="what the recorder does with each run",
        alt=" ".join(words),
        above=True,
    )
    [axes] = picture.figure.axes
    axes.set_xticks([])
    return picture
