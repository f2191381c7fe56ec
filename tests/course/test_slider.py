"""The slider: a picture on every page, and a widget where somebody watches."""

import pytest
from matplotlib.figure import Figure

from course import slider
from helpers.plots import Picture

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.mark.parametrize("live", [False, True])
def test_the_picture_stays_and_a_live_page_gets_a_widget(monkeypatch, live):
    shown, drawn = [], []
    monkeypatch.setattr(slider, "watched", lambda: live)
    monkeypatch.setattr("IPython.display.display", lambda it, **how: shown.append(it))
    always = Picture(Figure(), "Always.")

    def draw(value):
        drawn.append(value)
        return Picture(Figure(), f"For {value}.")

    slider.slider(always, draw, range(3, 6), "rows")
    assert shown[0] is always
    if not live:
        assert len(shown) == 1 and not drawn
        return
    first, bundle = shown[1:]
    assert drawn == [3] and str(first) == "Figure. For 3."
    assert (
        WIDGET in bundle and "while the notebook's kernel runs" in bundle["text/plain"]
    )
