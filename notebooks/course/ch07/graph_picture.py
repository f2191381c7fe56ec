"""An FX graph drawn as a graph: each node's loop, and its launch in color.

    graph_picture(f, x)

The graph is the one that Inductor lowers.  What became of its nodes is read off the
nodes of Inductor's scheduler, once it has fused them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from matplotlib.patches import Patch

from course.fx_drawing import Box, figure_of
from course.lowering import past_the_caches
from helpers.plots import Picture, styled

# Okabe and Ito's colors, light enough for black text.
FILLS = ("#56B4E9", "#E69F00", "#5FC9A6", "#CC79A7", "#F0E442", "#9BB3D6")


@styled
def graph_picture(
    fn: Callable[..., Any], *inputs: Any, names: Iterable[str] = ()
) -> Picture:
    """Return a picture of the graph of ``fn(*inputs)``.

    A box names the node and the first loop that computes it; its color is that of the
    launch.  *names* are those of the inputs, in order.
    """
    launches: list[Any] = []

    def keep(nodes: list[Any]) -> list[Any]:
        launches.extend(nodes)
        return nodes

    with past_the_caches(_post_fusion_custom_pass=keep):
        torch.compile(fn)(*inputs)
    ended: dict[Any, tuple[str, int]] = {}
    for number, launch in enumerate(launches):
        for loop in launch.get_nodes():
            origins = loop.node.get_origins()
            if loop.is_extern():  # what else it says only feeds it
                origins = {loop.node.get_origin_node()}
            for node in origins:
                ended.setdefault(node, (loop.get_name(), number))
    nodes = [n for n in next(iter(ended)).graph.nodes if n.op != "output"]
    given = iter(names)
    boxes = {
        node.name: Box(f"{ended[node][0]}: {node.name}", FILLS[ended[node][1] % 6])
        if node in ended
        else Box(next(given, node.name), "white")
        for node in nodes
    }
    boxes = {name: box._replace(edge="black") for name, box in boxes.items()}
    figure = figure_of(nodes, boxes, (2.2, 0.62))
    wide, high = figure.get_size_inches()
    figure.set_size_inches(max(wide, 7.5), high + 0.7)
    marks = [Patch(facecolor=FILLS[i % 6], ec="black") for i in range(len(launches))]
    labels = [f"launch {i}" for i in range(1, 1 + len(launches))]
    figure.legend(marks, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle("the nodes, their loops, and their launches")
    told = ", ".join(f"{n.name} in {ended[n][0]}" for n in nodes if n in ended)
    groups = [" and ".join(p.get_name() for p in one.get_nodes()) for one in launches]
    launched = "; ".join(f"{i} is {one}" for i, one in enumerate(groups, 1))
    return Picture(figure, f"The graph. Nodes: {told}. Launches: {launched}.")
