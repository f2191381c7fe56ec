"""The slider: one picture that moves, and chosen ones where nobody watches."""

import pytest
from matplotlib.figure import Figure

from course import slider
from helpers.plots import Picture

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.mark.parametrize("live", [False, True])
def test_a_live_page_has_one_picture_and_a_stored_one_the_chosen(monkeypatch, live):
    shown = []
    monkeypatch.setattr(slider, "watched", lambda: live)
    monkeypatch.setattr("IPython.display.display", lambda it, **how: shown.append(it))

    def draw(value):
        return Picture(Figure(), f"For {value}.")

    slider.slider(draw, range(3, 9), "rows", chosen=(4, 3, 8))
    if not live:
        assert [*map(str, shown)] == [f"Figure. For {n}." for n in (4, 3, 8)]
        return
    picture, bundle = shown
    assert str(picture) == "Figure. For 4."
    assert (
        WIDGET in bundle and "while the notebook's kernel runs" in bundle["text/plain"]
    )
