"""An FX graph drawn in layers: each node stands behind what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

Chain = list[Any]  # an edge: its node, a place in each layer passed, its user
_WIDE, _HIGH = 0.8, 0.6  # a box; a layer and a place in it are 1


class Box(NamedTuple):
    """What stands in a node's box, and the colours of both."""

    text: str
    fill: str
    ink: str = "black"
    edge: str = "none"


def figure_of(
    nodes: Iterable[Any],
    boxes: Mapping[str, Box],
    box: tuple[float, float],
) -> Figure:
    """Return a drawing of FX *nodes*, from top to bottom.

    *boxes* has what stands at each node's name; *box* is the room of one, in
    inches.
    """
    graph = nx.DiGraph()
    for node in nodes:
        graph.add_node(node.name)
        graph.add_edges_from((taken.name, node.name) for taken in node.all_input_nodes)
    layers, chains = _layers(graph)
    places = _places(layers, chains)
    xs, ys = zip(*places.values(), strict=True)
    wide, high = max(xs) - min(xs) + 1, max(ys) - min(ys) + 1
    figure = Figure(figsize=(wide * box[0], high * box[1]), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(min(xs) - 0.5, max(xs) + 0.5), ylim=(max(ys) + 0.5, min(ys) - 0.5))
    for chain in chains:
        _draw_edge(axes, [places[name] for name in chain])
    for name, one in boxes.items():
        _draw_box(axes, places[name], one)
    return figure


def _layers(graph: nx.DiGraph) -> tuple[list[list[Any]], list[Chain]]:
    """Return the names layer by layer, and each edge as a chain of names.

    An edge that passes a layer gets a place of its own there, so that it crosses
    no box; the edges of one node share it.
    """
    depth = {}
    for layer, names in enumerate(nx.topological_generations(graph)):
        depth |= dict.fromkeys(names, layer)
    for name in graph:  # an input stands just before its first user
        if not graph.in_degree(name) and graph.out_degree(name):
            depth[name] = min(depth[user] for user in graph[name]) - 1
    chains = []
    for source, user in graph.edges:
        passed = range(depth[source] + 1, depth[user])
        chains.append([source, *((source, layer) for layer in passed), user])
        depth |= {(source, layer): layer for layer in passed}
    layers: list[list[Any]] = [[] for _ in range(1 + max(depth.values()))]
    for name, layer in depth.items():
        layers[layer].append(name)
    return layers, chains


def _places(
    layers: list[list[Any]], chains: list[Chain]
) -> dict[Any, tuple[float, float]]:
    """Return where each name stands: in its layer, near those it is joined to."""
    joined = nx.Graph(pair for chain in chains for pair in pairwise(chain))
    x = {name: float(i) for layer in layers for i, name in enumerate(layer)}

    def middle(name: Any) -> float:
        return fmean(x[other] for other in joined[name]) if name in joined else 0.0

    for sweep in range(12):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=lambda name: (middle(name), str(name)))
            x |= _spread(layer, [middle(name) for name in layer])
    return {name: (x[name], y) for y, layer in enumerate(layers) for name in layer}


def _spread(layer: list[Any], wanted: list[float]) -> dict[Any, float]:
    """Return places near the *wanted* ones, with room between the names."""
    rooms = [1.0 if isinstance(name, str) else 0.55 for name in layer]
    at = wanted[:1]
    for want, room in zip(wanted[1:], map(sum, pairwise(rooms)), strict=True):
        at.append(max(want, at[-1] + room / 2))
    shift = fmean(wanted) - fmean(at)
    return {name: place + shift for name, place in zip(layer, at, strict=True)}


def _draw_edge(axes: Axes, points: list[tuple[float, float]]) -> None:
    """Draw a smooth line from the foot of a box to the head of another."""
    corners, codes = [points[0]], [Path.MOVETO]
    end = points[-1][0], points[-1][1] - _HIGH / 2
    for (x0, y0), (x1, y1) in pairwise([*points[:-1], end]):
        half = (y0 + y1) / 2
        corners += [(x0, half), (x1, half), (x1, y1)]
        codes += [Path.CURVE4] * 3
    look = {"color": "#555555", "zorder": 1}
    axes.add_patch(PathPatch(Path(corners, codes), fill=False, lw=1.5, **look))
    axes.plot(*end, "v", markersize=7, **look)


def _draw_box(axes: Axes, at: tuple[float, float], box: Box) -> None:
    x, y = at
    style = "round,pad=0,rounding_size=0.08"
    corner = x - _WIDE / 2, y - _HIGH / 2
    patch = FancyBboxPatch(corner, _WIDE, _HIGH, boxstyle=style)
    patch.set(facecolor=box.fill, edgecolor=box.edge, linewidth=1, zorder=2)
    axes.add_patch(patch)
    look = {"color": box.ink, "fontsize": 13, "zorder": 3}
    axes.text(x, y, box.text, ha="center", va="center", **look)
