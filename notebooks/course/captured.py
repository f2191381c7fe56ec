"""What Dynamo captured: its graphs, and a picture of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course.backend import CountingBackend
from course.fx_drawing import Box, figure_of
from helpers.plots import COLOURS, Picture, styled

Graph = torch.fx.GraphModule
Function = Callable[..., Any]


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


@styled
def draw_graph(graph: Graph, marked: str) -> Picture:
    """Return a picture of an FX graph.

    In a second colour: operations whose line of Python contains *marked*.
    """
    nodes = list(graph.graph.nodes)
    boxes = {node.name: _box(node, _is_marked(node, marked)) for node in nodes}
    inside = [n.name for n in operations(graph) if _is_marked(n, marked)]
    figure = figure_of(nodes, boxes, (1.9, 0.7))
    figure.suptitle(f"orange: from the line with {marked}")
    words = ", ".join(name_of(node).replace("\n", " ") for node in nodes)
    return Picture(
        figure,
        f"The FX graph, from top to bottom: {words}. In a second colour, "
        f"because they come from the line with {marked}: "
        f"{', '.join(inside)}.",
    )


def _box(node: torch.fx.Node, marked: bool) -> Box:
    if node.op in ("placeholder", "output"):
        return Box(name_of(node), "#E8EEF3", "#222222")
    return Box(name_of(node), COLOURS[marked], "white")
