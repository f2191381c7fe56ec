"""What a way of writing something costs: its graphs, launches and bytes.

way = count(function, x)       on this machine, and on an H100
moved(way.h100)                the bytes of all its launches
ways_table({"by hand": way})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from helpers import device, dump_triton, graphs, kernels
from helpers.errors import InputError
from helpers.text import Table, mark, size


@dataclass(frozen=True)
class Launch:
    """A kernel or a library call: its operations, kind and bytes."""

    ops: tuple[str, ...]
    kind: str
    bytes: int


@dataclass(frozen=True)
class Way:
    """The launches of one program on this machine, and on an H100.

    *here* is None where the program cannot be compiled for this machine.
    """

    here: tuple[Launch, ...] | None
    h100: tuple[Launch, ...]
    graphs: int
    source: str
    """The module for the H100."""


def count(function: Callable[..., Any], *inputs: torch.Tensor) -> Way:
    """Count a program's launches and bytes, here and for an H100."""
    ours = [x.to(device()) for x in inputs]
    try:
        here = tuple(
            Launch(k.ops, k.language, k.bytes) for k in kernels(function, *ours).kernels
        )
    except InputError:
        here = None
    dump = dump_triton(function, *inputs)
    h100 = tuple(Launch(k.ops, k.kind, k.bytes) for k in dump.launches)
    return Way(here, h100, graphs(function, *ours).count, dump.source)


def moved(launches: Sequence[Launch]) -> int:
    """Return the bytes of all launches together."""
    return sum(launch.bytes for launch in launches)


def ways_table(ways: Mapping[str, Way]) -> Table:
    """Return graphs, launches and bytes of each way, here and for an H100."""
    rows = []
    for name, way in ways.items():
        here = (
            (mark("does not compile"), "")
            if way.here is None
            else (len(way.here), size(moved(way.here)))
        )
        there = len(way.h100), size(moved(way.h100))
        rows.append((name, way.graphs, *here, *there))
    headings = "way, graphs, launches here, bytes, launches on an H100, bytes"
    return Table.of(headings.split(", "), rows)
