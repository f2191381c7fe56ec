"""Pictures say in words what they show, and touch nothing of the caller's."""

import base64
import re
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from helpers import plots
from helpers.sweeps import Sweep
from tests.helpers.test_benchmark import fake

COMPARED = fake(2.0)


def comparison(a, b, interval, verdict):
    times = {"speedup": a / b, "median_s": (a, b), "confidence": 0.95}
    return replace(COMPARED, interval=interval, verdict=verdict, **times)


FASTER = comparison(12.3e-3, 4.4e-3, (2.74, 2.86), "faster")
SAME = comparison(5.1e-3, 5.1e-3, (0.994, 1.006), "same")
SLOWER = comparison(9e-6, 21e-6, (0.42, 0.45), "slower")
UNSURE = comparison(7e-3, 6.9e-3, (0.96, 1.07), "cannot tell")


PICTURES = {
    "one": FASTER.plot,
    "sweep": Sweep("size", "rows", (64, 4096), (FASTER,) * 2, complete=True).plot,
    "four": lambda: plots.plot_comparison(
        *(FASTER, SAME, SLOWER, UNSURE), labels=list("abcd")
    ),
}


def png(picture):
    data = re.search(r"base64,([^\"]+)", picture._repr_html_())
    return base64.b64decode(data[1])


@pytest.mark.parametrize("name", PICTURES)
def test_each_is_a_png_with_the_same_in_words(name):
    picture = PICTURES[name]()
    assert png(picture).startswith(b"\x89PNG")
    assert str(picture) == repr(picture) == f"Figure. {picture.alt}"
    page = picture._repr_html_()
    assert page.startswith('<img alt="')
    assert picture.alt.replace("⟨", "").replace("⟩", "") in page
    assert "⟨" not in page


def test_a_comparison_shows_its_numbers_and_the_interval_where_it_is():
    picture = plots.plot_comparison(FASTER, UNSURE, labels=["chain", "model"])
    assert "chain: ⟨faster: 2.8x, 95% interval 2.74 to 2.86⟩" in picture.alt
    assert "model: ⟨cannot tell: between 0.96x and 1.07x, " in picture.alt
    assert "eager ⟨12.3 ms⟩, compiled ⟨4.4 ms⟩" in picture.alt
    _, ratios = picture.figure.axes
    (segment,) = ratios.containers[0].lines[2][0].get_segments()
    assert [x for x, _ in segment] == pytest.approx([2.74, 2.86])


def test_the_callers_settings_neither_count_nor_change():
    before = png(PICTURES["four"]())
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.grid": False}):
        settings = dict(mpl.rcParams)
        assert png(PICTURES["four"]()) == before
        assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == []  # or a notebook would show a picture twice
