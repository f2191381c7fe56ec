"""How large is the graph of a loop?  Its operations, counted and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure

from course.backend import CountingBackend
from helpers import session
from helpers.plots import COLOURS, SHAPES, Picture, styled


def operations(function: Callable[..., Any], *inputs: Any) -> int:
    """Return how many operations are in the graph of a call, and below it.

    A body or a branch that the graph holds counts once, wherever it is.
    """
    backend = CountingBackend()
    with session.undisturbed(function):
        session.compile_apart(function, backend=backend, dynamic=False)(*inputs)
    parts = [
        part
        for graph in backend.captured
        for part in graph.modules()
        if isinstance(part, torch.fx.GraphModule)
    ]
    nodes = [node for part in parts for node in part.graph.nodes]
    return sum(node.op.startswith("call") for node in nodes)


@styled
def growth_picture(
    lengths: Sequence[int], counts: Mapping[str, Sequence[int]]
) -> Picture:
    """Return a picture of the size of each graph against the length."""
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplots()
    alt = "Operations in the graph, against the number of letters."
    inks = (*COLOURS, "#009E73")
    for (name, row), ink, shape in zip(
        counts.items(), inks, (*SHAPES, "^"), strict=False
    ):
        axes.plot(lengths, row, f"{shape}-", color=ink, label=name)
        alt += f" {name}: {', '.join(map(str, row))}."
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_title("how large a graph becomes")
    axes.set(xticks=lengths, xlabel="letters", ylabel="operations")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside right upper")
    return Picture(figure, alt.replace("letters.", f"letters {lengths}.", 1))
