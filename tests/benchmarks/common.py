"""What every benchmark shares: a record on disk with its machine and command."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers.text import Table
from tests import records
from tests.records import Rows

FOLDER = Path(__file__).parents[2] / "data" / "benchmarks"


def record(name: str, rows: Rows, command: str = "", **settings: Any) -> None:
    """Write the rows of a benchmark, with all that is needed to repeat it.

    *command* is what follows ``python -m tests.benchmarks``, where not the name.
    """
    done = f"tests.benchmarks {command or name}"
    records.write(FOLDER / f"{name}.json", "benchmark", done, rows, **settings)


def read(name: str) -> dict[str, Any] | None:
    """Return what the benchmark recorded, or None when it never ran."""
    return records.read(FOLDER / f"{name}.json")


def table(rows: list[dict[str, Any]]) -> Table:
    """Return rows that share their keys as a table."""
    return Table.of(tuple(rows[0]), [tuple(row.values()) for row in rows])


def _hog() -> None:
    """Work 30 ms, rest 30 ms, until ended: a neighbour busy half the time."""
    while True:
        end = time.perf_counter() + 0.03
        while time.perf_counter() < end:
            pass
        time.sleep(0.03)


@contextmanager
def neighbour(busy: bool) -> Iterator[None]:
    """Run another process beside the block, if *busy*."""
    if not busy:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(target=_hog, daemon=True)
    process.start()
    time.sleep(1)
    try:
        yield
    finally:
        process.terminate()
        process.join()
