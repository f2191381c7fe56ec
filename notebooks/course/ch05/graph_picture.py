"""An FX graph drawn as a graph, its nodes coloured by the kernel they end in.

    graph_picture(f, x)

The graph is the one that Inductor receives after its own passes; which node
ended in which kernel is what Inductor's scheduler says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest import mock

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from helpers import codegen
from helpers.plots import Picture, styled
from helpers.text import count, mark

# Okabe and Ito's colours, light enough for black text.  Kernels have numbers
# too, so that nothing depends on the colour.
FILLS = ("#56B4E9", "#E69F00", "#5FC9A6", "#CC79A7", "#F0E442", "#9BB3D6")
INPUT, NOWHERE = "white", "#DDDDDD"


@dataclass(frozen=True)
class Step:
    """A node of the graph: what it takes, and the kernels that compute it.

    *kernels* are numbers from 1, in the order of the launches.  An input, and
    a view, which moves nothing, may have none; a cheap operation may have two,
    where it is computed again instead of being stored.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    takes: tuple[str, ...]
    kernels: tuple[int, ...]
    is_input: bool


@dataclass(frozen=True)
class Drawn:
    """The graph of one phase, with the names of its kernels."""

    phase: str
    steps: tuple[Step, ...]
    kernels: tuple[str, ...]


def _graph_with_kernels(fn: Callable[..., Any], inputs: Any) -> Drawn:
    """Return the first graph of a call, with the kernel of each node."""
    found: list[tuple[str, str, str, list[Any]]] = []
    describe = codegen._kernel

    def noting(name: str, language: str, groups: list[Any]) -> Any:
        kernel = describe(name, language, groups)
        parts = [part for group in groups for part in group.get_nodes()]
        nodes = codegen._origins(parts)
        found.append((kernel.phase, language, name, nodes))
        return kernel

    with mock.patch.object(codegen, "_kernel", noting):
        codegen.kernels(fn, *inputs)
    phase = found[0][0]
    return _drawn(phase, [one[1:] for one in found if one[0] == phase])


def _drawn(phase: str, found: list[tuple[str, str, list[Any]]]) -> Drawn:
    graph = next(n.graph for _, _, nodes in found for n in nodes)
    steps = []
    for node in graph.nodes:
        if node.op == "output":
            continue
        value = node.meta.get("val")
        steps.append(
            Step(
                name=node.name,
                op=codegen.op_name(node.target),
                shape=tuple(getattr(value, "shape", ())),
                takes=tuple(n.name for n in node.all_input_nodes),
                kernels=_kernels_of(node, found),
                is_input=node.op == "placeholder",
            )
        )
    names = [f"{language}: {name}" for language, name, _ in found]
    return Drawn(phase, tuple(steps), tuple(names))


def _kernels_of(node: Any, found: list[Any]) -> tuple[int, ...]:
    numbers = enumerate(found, 1)
    return tuple(i for i, (_, _, nodes) in numbers if node in nodes)


@styled
def graph_picture(
    fn: Callable[..., Any], *inputs: Any, names: Iterable[str] = ()
) -> Picture:
    """Return a picture of the graph of ``fn(*inputs)``, kernels in colour.

    *names* are the names of the inputs, in order, for their boxes.
    """
    drawn, given = _graph_with_kernels(fn, inputs), iter(names)
    labels = {s.name: _label(s, given) for s in drawn.steps}
    layers, chains = _layers(drawn.steps)
    place = _places(layers, chains)
    xs, ys = zip(*place.values(), strict=True)
    width = max(2.1 * (max(xs) - min(xs) + 1.3), 7.5)  # inches, 2.1 for a box
    height = 0.62 * len(layers) + 0.5 * len(drawn.kernels) + 0.3
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    for chain in chains:
        _edge(axes, [place[name] for name in chain])
    for step in drawn.steps:
        _box(axes, place[step.name], labels[step.name], _fill(step))
    _legend(figure, drawn)
    middle = (min(xs) + max(xs)) / 2
    axes.set(xlim=(middle - width / 4.2, middle + width / 4.2))
    axes.set(ylim=(max(ys) + 0.5, min(ys) - 0.5))
    return Picture(figure, _words(drawn))


def _label(step: Step, given: Any) -> str:
    shape = "×".join(map(str, step.shape)) or "scalar"
    if step.is_input:
        return f"{next(given, step.name)}  {shape}"
    numbers = " and ".join(map(str, step.kernels))
    return f"{numbers and numbers + ': '}{step.name}  {shape}"


def _fill(step: Step) -> str:
    if not step.kernels:
        return INPUT if step.is_input else NOWHERE
    return FILLS[(step.kernels[0] - 1) % len(FILLS)]


def _words(drawn: Drawn) -> str:
    steps = [s for s in drawn.steps if not s.is_input]
    rows = []
    for number, _ in enumerate(drawn.kernels, 1):
        own = [s.name for s in steps if number in s.kernels]
        rows.append(f"{number} computes {', '.join(own)}")
    free = [s.name for s in steps if not s.kernels]
    if free:
        rows.append(f"no kernel for {', '.join(free)}")
    many = count(len(steps), "operation")
    kinds = mark(", ".join(drawn.kernels))
    head = f"The {drawn.phase} graph, {many}, "
    head += f"{count(len(drawn.kernels), 'launch')}"
    return f"{head.replace('launchs', 'launches')}: {'; '.join(rows)}. {kinds}"


# --- Where things stand: layers, and long edges through places of their own


def _layers(
    steps: tuple[Step, ...],
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the names layer by layer, and each edge as a chain of names.

    An edge that passes a layer gets a name there too, so that it has a place
    of its own and crosses no box.
    """
    depth: dict[str, int] = {}
    for step in steps:
        depth[step.name] = 1 + max((depth[n] for n in step.takes), default=-1)
    for step in steps:  # an input stands just above its first user
        users = [depth[s.name] for s in steps if step.name in s.takes]
        if step.is_input and users:
            depth[step.name] = min(users) - 1
    layers: list[list[str]] = [[] for _ in range(1 + max(depth.values()))]
    for step in steps:
        layers[depth[step.name]].append(step.name)
    chains = []
    for step in steps:
        for source in step.takes:
            chain = [source]
            for level in range(depth[source] + 1, depth[step.name]):
                chain.append(f"{source}>{level}")
                if chain[-1] not in layers[level]:
                    layers[level].append(chain[-1])
            chains.append([*chain, step.name])
    return layers, chains


def _places(
    layers: list[list[str]], chains: list[list[str]]
) -> dict[str, tuple[float, float]]:
    """Return x and y of each name; neighbours in a graph stand close by."""
    pairs = {p for c in chains for p in pairwise(c)}
    near: dict[str, list[str]] = {}
    for a, b in pairs:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    x = {name: float(i) for layer in layers for i, name in enumerate(layer)}

    def middle(name: str) -> float:
        around = [x[other] for other in near.get(name, [name])]
        return sum(around) / len(around)

    for sweep in range(12):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=lambda name: (middle(name), name))
            _spread(layer, x, [middle(name) for name in layer])
    return {name: (x[name], y) for y, layer in enumerate(layers) for name in layer}


def _spread(layer: list[str], x: dict[str, float], wanted: list[float]) -> None:
    """Put a layer near its wanted places, with room between them."""
    rooms = [0.55 if ">" in name else 1.0 for name in layer]
    at: list[float] = []
    for i, want in enumerate(wanted):
        gap = (rooms[i] + rooms[i - 1]) / 2 if i else 0
        at.append(max(want, at[-1] + gap) if at else want)
    shift = sum(w - a for w, a in zip(wanted, at, strict=True)) / len(at)
    x.update({n: a + shift for n, a in zip(layer, at, strict=True)})


def _edge(axes: Axes, points: list[tuple[float, float]]) -> None:
    """Draw a smooth line from the foot of a box to the head of another."""
    corners, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (y0 + y1) / 2
        corners += [(x0, half), (x1, half), (x1, y1)]
        codes += [Path.CURVE4] * 3
    line = Path(corners, codes)
    axes.add_patch(PathPatch(line, fill=False, ec="#555555", lw=1.5, zorder=1))


def _box(axes: Axes, at: tuple[float, float], text: str, fill: str) -> None:
    x, y = at
    style = "round,pad=0,rounding_size=0.08"
    box = FancyBboxPatch((x - 0.46, y - 0.3), 0.92, 0.6, boxstyle=style)
    box.set(facecolor=fill, edgecolor="black", linewidth=1, zorder=2)
    axes.add_patch(box)
    axes.text(x, y, text, ha="center", va="center", fontsize=13, zorder=3)


def _legend(figure: Figure, drawn: Drawn) -> None:
    from matplotlib.patches import Patch

    marks = [
        Patch(facecolor=FILLS[i % len(FILLS)], edgecolor="black")
        for i in range(len(drawn.kernels))
    ]
    names = [f"{i}  {name}" for i, name in enumerate(drawn.kernels, 1)]
    figure.legend(marks, names, loc="outside lower center")
