"""What every benchmark shares: a record on disk with its machine and command."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers.results import Machine, now, write_atomically
from helpers.text import Table

FOLDER = Path(__file__).parents[2] / "data" / "benchmarks"


def record(
    name: str, rows: list[dict[str, Any]], command: str = "", **settings: Any
) -> None:
    """Write the rows of a benchmark, with all that is needed to repeat it.

    *command* is what follows ``python -m tests.benchmarks``, where not the name.
    """
    whole = {
        "benchmark": name,
        "command": f"python -m tests.benchmarks {command or name}",
        "when": now(),
        "machine": dataclasses.asdict(Machine.here()),
        "settings": settings,
        "rows": rows,
    }
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    write_atomically(FOLDER / f"{name}.json", text)


def read(name: str) -> dict[str, Any] | None:
    """Return what the benchmark recorded, or None when it never ran."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


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
