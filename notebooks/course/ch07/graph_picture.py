"""An FX graph drawn as a graph, its nodes coloured by the kernel they end in.

    graph_picture(f, x)

The graph is the one that Inductor receives after its own passes; which node
ended in which kernel is what Inductor's scheduler says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from matplotlib.patches import Patch

from course.fx_drawing import Box, figure_of
from helpers import codegen
from helpers.plots import Picture, styled
from helpers.text import count, mark

# Okabe and Ito's colours, light enough for black text.  Kernels have numbers
# too, so that nothing depends on the colour.
FILLS = ("#56B4E9", "#E69F00", "#5FC9A6", "#CC79A7", "#F0E442", "#9BB3D6")
INPUT, NOWHERE = "white", "#DDDDDD"


@dataclass(frozen=True)
class _Kernel:
    """A launch of a phase, and the nodes of the graph that it computes."""

    phase: str
    name: str
    nodes: Sequence[Any]


@styled
def graph_picture(
    fn: Callable[..., Any], *inputs: Any, names: Iterable[str] = ()
) -> Picture:
    """Return a picture of the first graph of ``fn(*inputs)``, kernels in colour.

    *names* are the names of the inputs, in order, for their boxes.
    """
    found = _kernels(fn, inputs)
    found = [kernel for kernel in found if kernel.phase == found[0].phase]
    graph = next(node.graph for kernel in found for node in kernel.nodes)
    nodes = [node for node in graph.nodes if node.op != "output"]
    given = iter(names)
    boxes = {
        node.name: _box(node, _numbers(node, found), next(given, node.name))
        if node.op == "placeholder"
        else _box(node, _numbers(node, found), node.name)
        for node in nodes
    }
    figure = figure_of(nodes, boxes, (2.4, 0.64))
    wide, high = figure.get_size_inches()
    figure.set_size_inches(max(wide, 7.5), high + 0.5 * len(found))
    marks = [Patch(facecolor=_fill(i), edgecolor="black") for i in range(len(found))]
    kernels = [f"{i}  {kernel.name}" for i, kernel in enumerate(found, 1)]
    figure.suptitle("the graph, and which launch computes each node")
    figure.legend(marks, kernels, loc="outside lower center")
    return Picture(figure, _words(nodes, found))


def _kernels(fn: Callable[..., Any], inputs: Any) -> list[_Kernel]:
    """Return the launches of a call, in order, each with its nodes."""
    found: list[_Kernel] = []
    describe = codegen._kernel

    def noting(name: str, language: str, groups: list[Any]) -> Any:
        kernel = describe(name, language, groups)
        parts = [part for group in groups for part in group.get_nodes()]
        nodes = codegen._origins(parts)
        found.append(_Kernel(kernel.phase, f"{language}: {name}", nodes))
        return kernel

    with mock.patch.object(codegen, "_kernel", noting):
        codegen.kernels(fn, *inputs)
    return found


def _numbers(node: Any, found: Sequence[_Kernel]) -> list[int]:
    """Return the numbers, from 1, of the kernels that compute a node.

    An input, and a view, which moves nothing, may have none; a cheap operation
    may have two, where it is computed again instead of being stored.
    """
    return [i for i, kernel in enumerate(found, 1) if node in kernel.nodes]


def _box(node: Any, numbers: Sequence[int], name: str) -> Box:
    shape = getattr(node.meta.get("val"), "shape", ())
    text = f"{name}  {'×'.join(map(str, shape)) or 'scalar'}"
    if numbers:
        text = f"{' and '.join(map(str, numbers))}: {text}"
        return Box(text, _fill(numbers[0] - 1), edge="black")
    fill = INPUT if node.op == "placeholder" else NOWHERE
    return Box(text, fill, edge="black")


def _fill(place: int) -> str:
    return FILLS[place % len(FILLS)]


def _words(nodes: Sequence[Any], found: Sequence[_Kernel]) -> str:
    steps = [node for node in nodes if node.op != "placeholder"]
    rows = []
    for number, kernel in enumerate(found, 1):
        own = [node.name for node in steps if node in kernel.nodes]
        rows.append(f"{number} computes {', '.join(own)}")
    if free := [node.name for node in steps if not _numbers(node, found)]:
        rows.append(f"no kernel for {', '.join(free)}")
    launches = count(len(found), "launch").replace("launchs", "launches")
    head = f"The {found[0].phase} graph, {count(len(steps), 'operation')}, {launches}"
    kinds = mark(", ".join(kernel.name for kernel in found))
    return f"{head}: {'; '.join(rows)}. {kinds}"
