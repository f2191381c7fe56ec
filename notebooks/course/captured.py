"""What Dynamo captured: its graphs, and a picture of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course.backend import CountingBackend
from helpers.plots import COLOURS, Picture, styled

Graph = torch.fx.GraphModule
Function = Callable[..., Any]

# ------------------------------------------------------------------- graphs


def captured(fn: Function, *inputs: Any) -> list[Graph]:
    """Return the graphs that Dynamo makes of a call; they run as they are."""
    backend = CountingBackend()
    torch.compile(fn, backend=backend)(*inputs)
    return backend.captured


def operations(graph: Graph) -> list[torch.fx.Node]:
    """Return the nodes of a graph that compute something."""
    return [node for node in graph.graph.nodes if node.op.startswith("call")]


def name_of(node: torch.fx.Node) -> str:
    """Return a short name: of an input what it is, else the function."""
    if node.op == "placeholder":
        name = node.name.strip("_").removeprefix("l_")
        name = name.removeprefix("self_modules_")
        return name.replace("_parameters_", "\n")
    if node.op == "output":
        return "output"
    return getattr(node.target, "__name__", str(node.target)).strip("_")


def _is_marked(node: torch.fx.Node, marked: str) -> bool:
    return marked in (node.meta.get("stack_trace") or "")


def _places(
    nodes: list[torch.fx.Node], marked: str
) -> dict[torch.fx.Node, tuple[int, int]]:
    """Return a column and a row for each node, so that arrows go right.

    Inputs stand above, what is marked below, and the rest in between.
    """
    column: dict[torch.fx.Node, int] = {}
    for node in nodes:
        before = [column[parent] for parent in node.all_input_nodes]
        column[node] = 1 + max(before, default=-1)
    places: dict[torch.fx.Node, tuple[int, int]] = {}
    for node in nodes:
        x, y, step = column[node], 0, -1
        if node.op == "placeholder":  # beside what reads it first
            x, y, step = min(column[u] for u in node.users) - 1, 1, 1
        elif _is_marked(node, marked):
            y = -1
        while (x, y) in places.values():
            y += step
        places[node] = x, y
    return places


@styled
def draw_graph(graph: Graph, marked: str) -> Picture:
    """Return a picture of an FX graph.

    In a second colour: operations whose line of Python contains *marked*.
    """
    from matplotlib.figure import Figure

    nodes = list(graph.graph.nodes)
    places = _places(nodes, marked)
    xs, ys = zip(*places.values(), strict=True)
    size = 1.3 * (max(xs) + 1), 0.75 * (max(ys) - min(ys) + 1)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-0.5, max(xs) + 0.5))
    axes.set(ylim=(min(ys) - 0.5, max(ys) + 0.5))
    axes.axis("off")
    boxes = {
        node: _box(axes, node, places[node], _is_marked(node, marked)) for node in nodes
    }
    for node in nodes:
        for parent in node.all_input_nodes:
            _arrow(axes, boxes[parent], boxes[node])
    inside = [n.name for n in operations(graph) if _is_marked(n, marked)]
    words = ", ".join(name_of(node).replace("\n", " ") for node in nodes)
    return Picture(
        figure,
        f"The FX graph, from left to right: {words}. In a second colour, "
        f"because they come from the line with {marked}: "
        f"{', '.join(inside)}.",
    )


def _box(axes: Any, node: torch.fx.Node, at: Any, marked: bool) -> Any:
    quiet = node.op in ("placeholder", "output")
    fill = COLOURS[1] if marked else "#E8EEF3" if quiet else COLOURS[0]
    return axes.text(
        *at,
        name_of(node),
        ha="center",
        va="center",
        fontsize=14,
        color="#222222" if quiet else "white",
        bbox={"boxstyle": "round,pad=0.35", "fc": fill, "ec": "none"},
        zorder=3,
    )


def _arrow(axes: Any, start: Any, end: Any) -> None:
    axes.annotate(
        "",
        end.get_position(),
        start.get_position(),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "#555555",
            "patchA": start.get_bbox_patch(),
            "patchB": end.get_bbox_patch(),
            "shrinkA": 3,
            "shrinkB": 3,
        },
    )
