"""What every benchmark shares: a record on disk with its machine and command."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
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


def _work_and_rest() -> None:
    """Work 30 ms, rest 30 ms, until ended: a neighbour busy half the time."""
    while True:
        end = time.perf_counter() + 0.03
        while time.perf_counter() < end:
            pass
        time.sleep(0.03)


def _work() -> None:
    """Work until ended."""
    while True:
        pass


@contextmanager
def neighbour(busy: bool) -> Iterator[None]:
    """Run another process, busy half the time, beside the block, if *busy*."""
    with _beside(_work_and_rest, int(busy)):
        yield


@contextmanager
def neighbours(processes: int) -> Iterator[None]:
    """Run so many processes, each busy all the time, beside the block."""
    with _beside(_work, processes):
        yield


@contextmanager
def _beside(work: Callable[[], None], processes: int) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=work, daemon=True) for _ in range(processes)]
    for child in children:
        child.start()
    if children:
        time.sleep(1)
    try:
        yield
    finally:
        for child in children:
            child.terminate()
            child.join()
