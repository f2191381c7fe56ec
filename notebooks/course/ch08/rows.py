"""Reductions over rows, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.gpu.dump import DumpedKernel
from helpers.text import Table, size


def reduction_table(kernels: dict[Any, Sequence[DumpedKernel]]) -> Table:
    """Return a row for each kernel: its kind, programs, loads and bytes."""
    rows = []
    for name, several in kernels.items():
        for k in several:
            loads = k.source.count("tl.load("), k.loads
            rows.append((name, k.kind, k.grid[0], *loads, size(k.bytes)))
    headings = "case, kind, programs, loads in the code, loads counted, bytes"
    return Table.of(headings.split(", "), rows)
