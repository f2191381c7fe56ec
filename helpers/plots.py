"""Pictures of results, each with its words: they draw what was measured.

In one style: large type, Okabe and Ito's colours, which colour-blind readers can tell
apart, and a shape or hatch beside each colour.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from . import text
from .stats import SAME
from .text import mark, plain

# Okabe & Ito, Color Universal Design, 2008: blue, vermilion, bluish green.
COLOURS = ("#0072B2", "#D55E00")
CEILING, QUIET = "#009E73", "#767676"
# A function below it draws in this style, and the caller's stays as it is.
styled = context(["default", f"{__package__}.plots"])


@dataclass(frozen=True, repr=False)
class Picture:
    """A matplotlib figure and the same in words, for those who cannot see it."""

    figure: Figure
    alt: str

    def __str__(self) -> str:
        return f"Figure. {self.alt}"

    __repr__ = __str__

    @styled  # matplotlib looks at some settings only when it renders
    def _repr_html_(self) -> str:
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=100)
        alt = html.escape(plain(self.alt))
        data = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        return f'<img alt="{alt}" style="max-width:100%" src="{data}">'


@styled
def plot_comparison(*comparisons: Any, labels: Sequence[str] | None = None) -> Picture:
    """Return a picture of one or more results of ``compare``.

    Per result: the median times of both sides in seconds, and the speed-up with
    its interval, a line at no difference and the band of the verdict "same".
    *labels* names the results.
    """
    if not comparisons:
        raise ValueError("plot_comparison needs at least one result of compare()")
    labels = labels or ["{1} against\n{0}".format(*race.names) for race in comparisons]
    rows = range(len(comparisons))
    # No pyplot, so that a notebook shows it only once.
    figure = Figure(figsize=(11, 2.1 + 0.85 * len(rows)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.08)
    times, ratios = figure.subplots(1, 2)
    for side, name in enumerate(comparisons[0].names):
        places = [row + 0.36 * side - 0.18 for row in rows]
        seconds = [race.median_s[side] for race in comparisons]
        times.plot(seconds, places, "os"[side], color=COLOURS[side], label=name)
        for at in zip(seconds, places, strict=True):
            beside = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
            times.annotate(text.seconds(at[0]), at, **beside)
    seconds = [value for race in comparisons for value in race.median_s]
    far = max(seconds) > 20 * min(seconds)
    _limits(times, seconds if far else [0, *seconds], 0.3, far)  # for text at a point
    times.xaxis.set_major_formatter(lambda s, _: text.seconds(s) if s else "0")
    times.set(title="median time of a call", yticks=rows, yticklabels=labels)
    times.set_ylim(len(rows) - 0.4, -0.6)
    figure.legend(loc="outside upper left", ncols=2)
    beside = {"va": "center", "transform": ratios.get_yaxis_transform()}
    for row, race in zip(rows, comparisons, strict=True):
        low, high = race.interval
        ends = [[max(0, race.speedup - low)], [max(0, high - race.speedup)]]
        ratios.errorbar(race.speedup, row, None, ends, "ok", capsize=5)
        ratios.text(1.03, row, f"{race.verdict}\n{race.speedup:.3g}x", **beside)
    ratios.axvline(1, color=QUIET)
    ratios.axvspan(1 - SAME, 1 + SAME, color=QUIET, alpha=0.3, linewidth=0)
    ends = [1 - 3 * SAME, 1 + 3 * SAME]
    ends += [end for race in comparisons for end in race.interval]
    _limits(ratios, ends, 0.08, max(ends) > 3 * min(ends))
    ratios.xaxis.set_major_formatter(lambda value, _: f"{value:.4g}x")
    ratios.set_title(f"speed-up, {comparisons[0].confidence:.0%} interval")
    ratios.set(ylim=times.get_ylim(), yticks=[], xlabel="line at 1x: no difference")
    alt = "Speed-up with its interval."
    for label, race in zip(labels, comparisons, strict=True):
        a, b = (mark(text.seconds(value)) for value in race.median_s)
        alt += f" {' '.join(label.split())}: {mark(race.ratio())}; "
        alt += f"median call: {race.names[0]} {a}, {race.names[1]} {b}."
    return Picture(figure, alt)


@styled
def plot_forecasts(found: Any) -> Picture:
    """Return a picture of ``forecast_over``: estimates, bounds, and where they part."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    alt = f"Forecast over the {found.parameter}; nothing was timed."
    for at, name in enumerate(("eager", "compiled")):
        sides = [getattr(each, name) for each in found.forecasts]
        times = [side.estimate for side in sides]
        look, line = {"color": COLOURS[at]}, f"{'os'[at]}-"
        axes.plot(found.values, times, line, label=f"{name}, estimate", **look)
        bounds = [side.bound for side in sides]
        axes.plot(found.values, bounds, ":", label=f"{name}, never under", **look)
        both = zip(found.values, map(text.seconds, times), strict=True)
        alt += f" {name}: {', '.join(f'{value}: {took}' for value, took in both)}."
    if found.crossing is not None:
        axes.axvline(found.crossing, color=QUIET, linestyle="--")
        where = f"the host no longer decides at {found.crossing}"
        axes.set_title(where)
        alt += f" Eager: {where}."
    axes.set(xscale="log", yscale="log", xlabel=found.parameter, ylabel="a call")
    axes.set_xticks(found.values, [str(value) for value in found.values])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(lambda s, _: text.seconds(s))
    figure.legend(loc="outside right upper")
    return Picture(figure, alt)


def _limits(axes: Axes, values: Sequence[float], room: float, log: bool) -> None:
    """Let the axis hold *values*, and the share *room* of it beyond the largest."""
    low, high = min(values), max(values)
    if log:
        axes.set_xscale("log")
        ticks = LogLocator(10, (1, 2, 5) if high < 100 * low else (1,))
        axes.xaxis.set_major_locator(ticks)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(low / (high / low) ** 0.08, high * (high / low) ** room)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_xlim(low and low - 0.08 * (high - low), high + room * (high - low))
