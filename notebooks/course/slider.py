"""A slider over pictures, below one picture that stays on the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from helpers.plots import Picture
from helpers.text import watched

_ASLEEP = "A slider stands here while the notebook's kernel runs."


def slider(
    always: Picture, draw: Callable[[Any], Picture], values: Sequence[Any], label: str
) -> None:
    """Show *always*; in a live notebook a slider over ``draw(value)`` too."""
    from IPython.display import display

    display(always)
    # Without its kernel a stored slider is dead, so a script stores none.
    if watched():
        import ipywidgets

        chosen = ipywidgets.SelectionSlider(options=list(values), description=label)
        live = ipywidgets.interactive(lambda value: display(draw(value)), value=chosen)
        display(live._repr_mimebundle_() | {"text/plain": _ASLEEP}, raw=True)
