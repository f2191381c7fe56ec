"""A graph becoming kernels, drawn: each node, the loop it went into, its launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from unittest import mock

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers import codegen
from helpers.plots import Picture, styled
from helpers.text import count

_FILLS = ("#56B4E9", "#E69F00", "#5FC9A6", "#CC79A7")  # Okabe and Ito's, lighter


@dataclass(frozen=True)
class _Loop:
    """A loop or a library call of the schedule, and the nodes that it computes."""

    name: str  # as in the logs: op0
    launch: int  # from 1
    nodes: tuple[Any, ...]


@styled
def schedule_picture(fn: Callable[..., Any], *inputs: Any) -> Picture:
    """Return a picture of the graph of ``fn(*inputs)``, from nodes to launches.

    A row is a node of the graph that Inductor lowers, beside the first loop that needs
    it; a loop and a launch are as high as what they take.  Source: the nodes of
    Inductor's scheduler and what they come from.
    """
    loops = _loops(fn, inputs)
    first = {node: loop for loop in reversed(loops) for node in loop.nodes}
    rows = sorted(first.items(), key=lambda pair: pair[0])
    numbers = list(dict.fromkeys(loop.launch for _, loop in rows))
    figure = Figure(figsize=(9, 0.8 + 0.42 * len(rows)), layout="constrained")
    axes = figure.subplots()
    columns = (
        [(node.name, loop.launch) for node, loop in rows],
        [(loop.name, loop.launch) for _, loop in rows],
        [(f"launch {loop.launch}", loop.launch) for _, loop in rows],
    )
    for column, cells in enumerate(columns):
        end = 0
        for (name, launch), same in groupby(cells):
            start, end = end, end + len([*same])
            fill = _FILLS[numbers.index(launch) % len(_FILLS)]
            _box(axes, column, (start, end), name, fill)
            if column < 2:  # into the box at the right
                way = {"color": "#555555", "arrowstyle": "->"}
                ends = (
                    (column + 0.76, (start + end) / 2),
                    (column + 1, (start + end) / 2),
                )
                axes.annotate("", ends[1], ends[0], arrowprops=way)
    counted = (len(first), "node"), (len(loops), "loop"), (len(numbers), "launch")
    many = [count(*each).replace("launchs", "launches") for each in counted]
    heads = ("the graph", "lowering", "scheduling")
    names = [f"{head}: {n}" for head, n in zip(heads, many, strict=True)]
    axes.set_xticks([0.38, 1.38, 2.38], names)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set(xlim=(-0.02, 2.8), ylim=(len(rows), 0), yticks=[])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    told = [
        f"{node.name} into {loop.name}, launch {loop.launch}" for node, loop in rows
    ]
    return Picture(figure, f"{', '.join(many)}: {'; '.join(told)}.")


def _box(axes: Axes, column: int, rows: tuple[int, int], name: str, fill: str) -> None:
    """Draw what the rows of a column become, as one box with its name."""
    start, end = rows
    high = end - start - 0.16
    look = {"facecolor": fill, "edgecolor": "black", "linewidth": 0.8}
    axes.barh((start + end) / 2, 0.76, high, left=column, **look)
    at = column + 0.38, (start + end) / 2
    axes.text(*at, name, ha="center", va="center", color="black")


def _loops(fn: Callable[..., Any], inputs: Any) -> list[_Loop]:
    """Return what the scheduler launches, in order."""
    found: list[_Loop] = []
    describe = codegen._kernel

    def noting(name: str, language: str, groups: list[Any]) -> Any:
        launch = found[-1].launch + 1 if found else 1
        for part in (part for group in groups for part in group.get_nodes()):
            nodes = tuple(codegen._origins([part]))
            found.append(_Loop(part.get_name(), launch, nodes))
        return describe(name, language, groups)

    with mock.patch.object(codegen, "_kernel", noting):
        codegen.kernels(fn, *inputs)
    return found
