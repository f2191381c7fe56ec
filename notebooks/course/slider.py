"""A picture that a slider moves, and what stands for it on a page without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from helpers.plots import Picture
from helpers.text import watched

_ASLEEP = "A slider stands here while the notebook's kernel runs."


def slider(
    draw: Callable[[Any], Picture],
    values: Sequence[Any],
    label: str,
    chosen: Sequence[Any],
) -> None:
    """Show ``draw(value)`` below a slider over *values*.

    Without its kernel a stored slider is dead, so where nobody watches, as in a script
    that stores a notebook, the pictures of the *chosen* values are shown in its place.
    """
    from IPython.display import display

    if not watched():
        for value in chosen:
            display(draw(value))
        return
    import ipywidgets

    place = ipywidgets.SelectionSlider(
        options=list(values), value=chosen[0], description=label
    )
    live = ipywidgets.interactive(lambda value: display(draw(value)), value=place)
    # The picture keeps its place while the next one is drawn, so nothing jumps.
    live.children[-1].layout.min_height = "12em"
    display(live._repr_mimebundle_() | {"text/plain": _ASLEEP}, raw=True)
