"""Pictures say in words what they show, and touch nothing of the caller's."""

import base64
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from helpers import plots
from helpers.sweeps import Point, Sweep
from tests.helpers.test_benchmark import made


def comparison(a, b, interval, verdict):
    times = {"speedup": a / b, "median_s": (a, b), "confidence": 0.95}
    return made(interval=interval, verdict=verdict, **times)


FASTER = comparison(12.3e-3, 4.4e-3, (2.74, 2.86), "faster")
SAME = comparison(5.1e-3, 5.1e-3, (0.994, 1.006), "same")
SLOWER = comparison(9e-6, 21e-6, (0.42, 0.45), "slower")
UNSURE = comparison(7e-3, 6.9e-3, (0.96, 1.07), "cannot tell")


POINTS = tuple(Point(rows, FASTER) for rows in (64, 4096))
PICTURES = {
    "one": FASTER.plot,
    "sweep": Sweep("size", "rows", POINTS, complete=True).plot,
    "four": lambda: plots.plot_comparison(
        *(FASTER, SAME, SLOWER, UNSURE), labels=list("abcd")
    ),
}


def png(picture):
    data = re.search(r"base64,([^\"]+)", picture._repr_html_())
    return base64.b64decode(data[1])


def texts(picture):
    """Return every text that is drawn: ticks beyond the ends of an axis are not."""
    figure = picture.figure
    figure.draw_without_rendering()
    found = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        found += [axes.title, axes._left_title, *axes.texts]
        for place, axis in enumerate((axes.xaxis, axes.yaxis)):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_ticklabels()
            found += [t for t in ticks if low <= t.get_position()[place] <= high]
            found.append(axis.label)
    return [text for text in found if text.get_text() and text.get_visible()]


def shown(picture):
    return " ".join(text.get_text() for text in texts(picture))


@pytest.mark.parametrize("name", PICTURES)
def test_each_is_a_png_with_the_same_in_words(name):
    picture = PICTURES[name]()
    assert collisions(picture) == []
    assert png(picture).startswith(b"\x89PNG")
    assert str(picture) == repr(picture) == f"Figure. {picture.alt}"
    page = picture._repr_html_()
    assert page.startswith('<img alt="')
    assert picture.alt.replace("⟨", "").replace("⟩", "") in page
    assert "⟨" not in page
    assert "⟨" not in shown(picture)


def collisions(picture):
    """Return the texts that are cut off or lie over another one."""
    figure = picture.figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [
        (text.get_text(), text.get_window_extent(renderer).shrunk(0.95, 0.8))
        for text in texts(picture)
    ]
    inside = figure.bbox.padded(2)
    found = [
        f"{word!r} is cut off"
        for word, box in boxes
        if not (inside.contains(*box.min) and inside.contains(*box.max))
    ]
    for i, (word, box) in enumerate(boxes):
        over = [other for other, place in boxes[i + 1 :] if box.overlaps(place)]
        found += [f"{word!r} lies over {other!r}" for other in over]
    return found


def test_a_comparison_shows_its_numbers_and_the_interval_where_it_is():
    picture = plots.plot_comparison(FASTER, UNSURE, labels=["chain", "model"])
    words = shown(picture)
    for word in ("12.3 ms", "4.4 ms", "faster\n2.8x", "chain", "cannot tell", "eager"):
        assert word in words
    assert "chain: ⟨faster: 2.8x, 95% interval 2.74 to 2.86⟩" in picture.alt
    assert "model: ⟨cannot tell: between 0.96x and 1.07x, " in picture.alt
    assert "eager ⟨12.3 ms⟩, compiled ⟨4.4 ms⟩" in picture.alt
    _, ratios = picture.figure.axes
    (segment,) = ratios.containers[0].lines[2][0].get_segments()
    assert [x for x, _ in segment] == pytest.approx([2.74, 2.86])


SPREAD = comparison(5e-3, 1e-4, (1.5, 4.0), "faster")


@pytest.mark.parametrize(("race", "scale"), [(FASTER, "linear"), (SPREAD, "log")])
def test_axes_hold_what_they_show_and_no_times_are_cut_below(race, scale):
    times, ratios = plots.plot_comparison(race).figure.axes
    assert times.get_xscale() == ratios.get_xscale() == scale
    for axes, shown in ((times, race.median_s), (ratios, (1, *race.interval))):
        low, high = axes.get_xlim()
        assert low < min(shown) and max(shown) < high
    assert (times.get_xlim()[0] == 0) == (scale == "linear")


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="at least one result"):
        plots.plot_comparison()


def test_the_callers_settings_neither_count_nor_change():
    before = png(PICTURES["four"]())
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.grid": False}):
        settings = dict(mpl.rcParams)
        assert png(PICTURES["four"]()) == before
        assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == []  # or a notebook would show a picture twice
