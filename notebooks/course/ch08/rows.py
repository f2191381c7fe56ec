"""Reductions over rows, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.gpu.dump import DumpedKernel
from helpers.text import Table, size


def reduction_table(kernels: dict[Any, Sequence[DumpedKernel]]) -> Table:
    """Return a row for each kernel: its kind, programs and bytes."""
    rows = []
    for name, several in kernels.items():
        for k in several:
            rows.append((name, k.kind, k.grid[0], size(k.bytes)))
    return Table.of(["case", "kind", "programs", "bytes"], rows)
