"""A slider over pictures, below one picture that stays on the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from helpers.plots import Picture
from helpers.text import watched

_ASLEEP = "A slider stands here while the notebook's kernel runs."


@dataclass(frozen=True, repr=False)
class Slider:
    """Shows *always*; in a live notebook a slider for ``draw(value)`` too."""

    always: Picture
    draw: Callable[[Any], Picture]
    values: Sequence[Any]
    label: str

    def __str__(self) -> str:
        return str(self.always)

    __repr__ = __str__

    def widget(self) -> Any:
        """Return the slider with the picture of its value below it."""
        import ipywidgets

        draw = cache(lambda value: self.draw(value)._repr_html_())
        slider = ipywidgets.SelectionSlider(
            options=list(self.values), description=self.label
        )
        shown = ipywidgets.HTML(draw(slider.value))
        slider.observe(
            lambda change: setattr(shown, "value", draw(change["new"])),
            "value",
        )
        return ipywidgets.VBox([slider, shown])

    def _ipython_display_(self) -> None:
        from IPython.display import display

        text = {
            "text/plain": str(self),
            "text/html": self.always._repr_html_(),
        }
        display(text, raw=True)
        # Without its kernel a stored slider is dead, so a script stores none.
        if watched():
            live = self.widget()._repr_mimebundle_()
            display(live | {"text/plain": _ASLEEP}, raw=True)
