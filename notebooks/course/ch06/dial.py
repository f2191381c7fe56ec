"""The activation memory budget as a dial: what is kept, what repeated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from torch._functorch import config as functorch_config

from course.aot import Graphs, aot_graphs
from course.ch06.saved import computed_twice, handed_over, saved_bytes
from course.drawing import (
    BLUE,
    VERMILION,
    Cell,
    Look,
    Piece,
    add_legend,
    bars,
    draw_bars,
    grid,
)
from course.slider import slider
from helpers.plots import COLOURS, Picture, styled
from helpers.text import count, size

KEPT, AGAIN, GONE = "kept", "computed again", "not needed any more"
LOOKS = {
    KEPT: Look(COLOURS[0], edge="#555555"),
    AGAIN: Look("#F3C6A5", ink="black", edge="#555555"),
    GONE: Look("white", ink="black", edge="#555555"),
}
_PRICE = {"small operations": Look("#999999"), "matrix products": VERMILION}
PRODUCTS = ("mm", "bmm", "addmm")


@dataclass(frozen=True)
class Budgeted:
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


def budgeted(
    fn: Callable[..., Any],
    inputs: Iterable[Any],
    shares: Iterable[float],
    known: Mapping[float, tuple[Graphs, int]],
) -> list[Budgeted]:
    """Compile *fn* up to Inductor, once for each budget.

    What is *known*, graphs and the bytes kept, is not compiled again.
    """
    given, found = list(inputs), []
    for share in shares:
        if share in known:
            graphs, kept = known[share]
        else:
            with functorch_config.patch(activation_memory_budget=share):
                graphs = aot_graphs(fn, *given)
            kept = saved_bytes(graphs.compiled, *given)
        found.append(Budgeted(share, kept, tuple(_fates(graphs))))
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


def dial(found: list[Budgeted], eager: int) -> None:
    """Show the picture of all budgets, and one of each that a slider moves to."""
    from IPython.display import display

    display(dial_picture(found, eager))
    by_share = {f"{one.share:g}": one for one in found}
    shares = list(by_share)
    chosen = [shares[0], shares[len(shares) // 2], shares[-1]]
    slider(lambda share: fates_picture(by_share[share]), shares, "budget", chosen)


@styled
def dial_picture(found: list[Budgeted], eager: int) -> Picture:
    """Return a picture of the bytes kept, and the operations repeated."""
    figure = Figure(figsize=(11, 1.7 + 0.5 * len(found)), layout="constrained")
    memory, price = figure.subplots(1, 2, sharey=True)
    kept = {f"{one.share:g}": [("kept", one.kept / 2**20)] for one in found}
    again = {
        f"{one.share:g}": [
            ("small operations", len(one.again) - len(one.products)),
            ("matrix products", len(one.products)),
        ]
        for one in found
    }
    sizes = [size(one.kept) for one in found]
    many = [len(one.products) for one in found]
    products = [count(n, "product") if n else "" for n in many]
    draw_bars(memory, kept, {"kept": BLUE}, ends=sizes)
    draw_bars(price, again, _PRICE, ends=products)
    memory.set(xlabel="kept for the backward (MiB)", ylabel="budget")
    memory.set_xlim(0, 1.12 * eager / 2**20)
    memory.axvline(eager / 2**20, color="black", ls=":")
    beside = {"xytext": (0, 3), "textcoords": "offset points", "ha": "right"}
    end = eager / 2**20, 1
    memory.annotate("eager keeps", end, xycoords=("data", "axes fraction"), **beside)
    price.set(xlabel="operations that are computed twice")
    memory.set_title("what a budget keeps")
    price.set_title("and what it costs")
    add_legend(figure, _PRICE, "outside upper right")
    rows = [
        f"budget {one.share:g}: {size(one.kept)} kept, {len(one.again)} "
        f"computed twice, of them {count(len(one.products), 'product')}"
        for one in found
    ]
    return Picture(figure, f"Eager keeps {size(eager)}. {'; '.join(rows)}.")


@styled
def fates_picture(one: Budgeted, columns: int = 13) -> Picture:
    """Return a picture of the forward, each operation with its fate."""
    cells: dict[str, dict[str, Cell]] = {}
    for i, (name, fate) in enumerate(one.fates):
        row = cells.setdefault(str(i // columns), {})
        row[str(i % columns)] = Cell(fate, name)
    kept = [name for name, fate in one.fates if fate == KEPT]
    words = f"Budget {one.share:g}: kept {', '.join(kept) or 'nothing'}; "
    words += f"computed again {', '.join(one.again) or 'nothing'}."
    size_in = 12, 1.1 + 0.75 * len(cells)
    picture = grid(cells, LOOKS, alt=words, legend="outside lower center", size=size_in)
    [axes] = picture.figure.axes
    axes.set_axis_off()
    axes.set_title(f"budget {one.share:g}: {size(one.kept)} kept")
    for name in axes.texts:
        name.set(fontsize=12, weight="bold" if name.get_text() in kept else "normal")
    return picture


def kept_picture(sides: dict[str, dict[str, int]]) -> Picture:
    """Return a picture of what each side keeps, tensor by tensor."""
    fills = ("#9BB3D6", "#E69F00", "#5FC9A6", "#CC79A7", "#F0E442")
    names = list(dict.fromkeys(n for kept in sides.values() for n in kept))
    looks = {n: Look(f, ink="black") for n, f in zip(names, itertools.cycle(fills))}
    rows, words = {}, []
    for side, kept in sides.items():
        own = [n for n in names if n in kept]  # in one order
        rows[side] = [
            Piece(n, kept[n] / 2**20, n if kept[n] > 50_000 else "") for n in own
        ]
        parts = [f"{n} {size(kept[n])}" for n in own]
        words.append(f"{side} keeps {', '.join(parts)}")
    return bars(
        rows,
        looks,
        unit="kept for the backward (MiB)",
        title="what each side keeps, tensor by tensor",
        alt=f"{'; '.join(words)}.",
        ends=[size(sum(kept.values())) for kept in sides.values()],
        legend=None,
    )
