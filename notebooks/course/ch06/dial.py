"""The activation memory budget as a dial: what is kept, what repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from course.aot import Graphs, aot_graphs
from course.ch06.saved import budget, computed_twice, handed_over, saved_bytes
from course.slider import Slider
from helpers.plots import COLOURS, Picture, styled
from helpers.text import count, size

KEPT, AGAIN, GONE = "kept", "computed again", "not needed any more"
LOOKS = {  # fill and ink
    KEPT: (COLOURS[0], "white"),
    AGAIN: ("#F3C6A5", "black"),
    GONE: ("white", "black"),
}
PRODUCTS = ("mm", "bmm", "addmm")


@dataclass(frozen=True)
class Setting:
    """What one budget gives: bytes kept, and the fate of each operation."""

    share: float
    kept: int
    fates: tuple[tuple[str, str], ...]

    @property
    def again(self) -> list[str]:
        """The operations that are computed again, in order."""
        return [name for name, fate in self.fates if fate == AGAIN]

    @property
    def products(self) -> list[str]:
        """The matrix products among them."""
        return [n for n in self.again if n.split("_")[0] in PRODUCTS]


def settings(
    fn: Callable[..., Any],
    inputs: Iterable[Any],
    shares: Iterable[float],
    known: Mapping[float, tuple[Graphs, int]],
) -> list[Setting]:
    """Compile *fn* up to Inductor, once for each budget.

    What is *known*, graphs and the bytes kept, is not compiled again.
    """
    given, found = list(inputs), []
    for share in shares:
        if share in known:
            graphs, kept = known[share]
        else:
            with budget(share):
                graphs = aot_graphs(fn, *given)
            kept = saved_bytes(graphs.compiled, *given)
        found.append(Setting(share, kept, tuple(_fates(graphs))))
    return found


def _fates(graphs: Graphs) -> Iterable[tuple[str, str]]:
    kept, again = set(handed_over(graphs)), set(computed_twice(graphs))
    for node in graphs["forward"].graph.nodes:
        if node.op != "call_function" or _is_view(node):
            continue
        if node.name in kept:
            yield node.name, KEPT
        else:
            yield node.name, AGAIN if node.name in again else GONE


def _is_view(node: Any) -> bool:
    return getattr(node.target, "is_view", False)


def dial(found: list[Setting], eager: int) -> Slider:
    """Return the picture of all settings, and a slider over each of them."""
    by_share = {f"{one.share:g}": one for one in found}
    return Slider(
        dial_picture(found, eager),
        lambda share: fates_picture(by_share[share]),
        list(by_share),
        "budget",
    )


@styled
def dial_picture(found: list[Setting], eager: int) -> Picture:
    """Return a picture of the bytes kept, and the operations repeated."""
    figure = Figure(figsize=(11, 1.7 + 0.5 * len(found)), layout="constrained")
    memory, price = figure.subplots(1, 2, sharey=True)
    names = [f"{one.share:g}" for one in found]
    mib = [one.kept / 2**20 for one in found]
    bars = memory.barh(names, mib, color=COLOURS[0])
    memory.bar_label(bars, [size(one.kept) for one in found], padding=4)
    line = memory.axvline(eager / 2**20, color="black", ls=":")
    memory.set(xlabel="kept for the backward (MiB)", ylabel="budget")
    memory.set_xlim(0, 1.12 * eager / 2**20)
    large = [len(one.products) for one in found]
    small = [len(one.again) - len(one.products) for one in found]
    first = price.barh(names, small, color="#999999")
    style = {"color": COLOURS[1], "hatch": "//", "edgecolor": "white"}
    second = price.barh(names, large, left=small, **style)
    words = [count(n, "product") if n else "" for n in large]
    price.bar_label(second, words, padding=4)
    price.set(xlabel="operations that are computed twice")
    price.set_xlim(0, 1.3 * max(map(sum, zip(small, large, strict=True))) + 1)
    memory.invert_yaxis()
    for axes in (memory, price):
        axes.grid(axis="y", visible=False)
    figure.legend(
        [line, first, second],
        ["eager keeps", "small operations", "matrix products"],
        loc="outside upper right",
        ncols=3,
    )
    rows = [
        f"budget {one.share:g}: {size(one.kept)} kept, {len(one.again)} "
        f"computed twice, of them {count(len(one.products), 'product')}"
        for one in found
    ]
    return Picture(figure, f"Eager keeps {size(eager)}. {'; '.join(rows)}.")


@styled
def fates_picture(one: Setting, columns: int = 13) -> Picture:
    """Return a picture of the forward, each operation with its fate."""
    rows = -(-len(one.fates) // columns)
    figure = Figure(figsize=(12, 1.1 + 0.75 * rows), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.set_axis_off()
    for i, (name, fate) in enumerate(one.fates):
        fill, ink = LOOKS[fate]
        x, y = i % columns, i // columns
        look = {"facecolor": fill, "edgecolor": "#555555"}
        axes.add_patch(Rectangle((x + 0.03, y + 0.1), 0.94, 0.8, **look))
        place = {"ha": "center", "va": "center", "fontsize": 12}
        weight = "bold" if fate == KEPT else "normal"
        axes.text(x + 0.5, y + 0.5, name, color=ink, weight=weight, **place)
    marks = [Patch(facecolor=fill, edgecolor="#555555") for fill, _ in LOOKS.values()]
    figure.legend(marks, list(LOOKS), loc="outside lower center", ncols=3)
    axes.set_title(f"budget {one.share:g}: {size(one.kept)} kept")
    kept = [name for name, fate in one.fates if fate == KEPT]
    words = f"Budget {one.share:g}: kept {', '.join(kept) or 'nothing'}; "
    words += f"computed again {', '.join(one.again) or 'nothing'}."
    return Picture(figure, words)


@styled
def kept_picture(sides: dict[str, dict[str, int]]) -> Picture:
    """Return a picture of what each side keeps, tensor by tensor."""
    figure = Figure(figsize=(10, 1.0 + 0.9 * len(sides)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    fills = ("#9BB3D6", "#E69F00", "#5FC9A6", "#CC79A7", "#F0E442")
    names = list(dict.fromkeys(n for kept in sides.values() for n in kept))
    for row, kept in enumerate(sides.values()):
        left = 0.0
        for name in [n for n in names if n in kept]:  # in one order
            width = kept[name] / 2**20
            fill = fills[names.index(name) % len(fills)]
            look = {"color": fill, "edgecolor": "white"}
            axes.barh(row, width, 0.7, left=left, **look)
            if width > 0.05:
                at = left + width / 2, row
                axes.text(*at, name, ha="center", va="center", fontsize=13)
            left += width
        total = size(sum(kept.values()))
        axes.text(left + 0.03, row, total, va="center", fontsize=13)
    longest = max(sum(kept.values()) for kept in sides.values()) / 2**20
    axes.set(yticks=range(len(sides)), yticklabels=list(sides))
    axes.set(xlim=(0, 1.2 * longest), xlabel="kept for the backward (MiB)")
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    rows = []
    for side, kept in sides.items():
        parts = [f"{n} {size(kept[n])}" for n in names if n in kept]
        rows.append(f"{side} keeps {', '.join(parts)}")
    return Picture(figure, f"{'; '.join(rows)}.")
