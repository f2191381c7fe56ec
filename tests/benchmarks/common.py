"""What benchmarks share: neighbours that keep a machine busy."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager


def _work(rest: float) -> None:
    """Work 30 ms and rest, until ended."""
    while True:
        end = time.perf_counter() + 0.03
        while time.perf_counter() < end:
            pass
        time.sleep(rest)


@contextmanager
def neighbours(processes: int, rest: float = 0.0) -> Iterator[None]:
    """Run so many busy processes beside the block, that rest so long every 30 ms."""
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=_work, args=(rest,), daemon=True)
        for _ in range(processes)
    ]
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
