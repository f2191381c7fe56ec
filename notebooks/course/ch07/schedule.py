"""A graph becoming kernels, drawn: each node, the loop it went into, its launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

from course.drawing import Cell, Look, grid
from helpers import codegen
from helpers.plots import Picture
from helpers.text import count

_FILLS = ("#56B4E9", "#E69F00", "#5FC9A6", "#CC79A7")  # Okabe and Ito's, lighter


@dataclass(frozen=True)
class _Loop:
    """A loop or a library call of the schedule, and the nodes that it computes."""

    name: str  # as in the logs: op0
    launch: int  # from 1
    nodes: tuple[Any, ...]


def schedule_picture(fn: Callable[..., Any], *inputs: Any) -> Picture:
    """Return a picture of the graph of ``fn(*inputs)``, from nodes to launches.

    A row is a node of the graph that Inductor lowers, beside the first loop that needs
    it.  Source: the nodes of Inductor's scheduler and what they come from.
    """
    loops = _loops(fn, inputs)
    numbers = dict.fromkeys(loop.launch for loop in loops)
    looks = {
        f"launch {number}": Look(fill, ink="black", edge="black")
        for number, fill in zip(numbers, _FILLS, strict=False)
    }
    first = {node: loop for loop in reversed(loops) for node in loop.nodes}
    cells, told = {}, []
    for node, loop in sorted(first.items(), key=lambda pair: pair[0]):
        launch = f"launch {loop.launch}"
        cells[node.name] = {
            "lowering: into which loop": Cell(launch, loop.name),
            "scheduling: into which launch": Cell(launch, launch),
        }
        told.append(f"{node.name} into {loop.name}, {launch}")
    launches = count(len(looks), "launch").replace("launchs", "launches")
    alt = f"{count(len(first), 'node')}, {count(len(loops), 'loop')}, {launches}: "
    return grid(cells, looks, alt=f"{alt}{'; '.join(told)}.", size=(9, 6))


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
