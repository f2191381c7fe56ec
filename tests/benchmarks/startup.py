"""What ``import helpers`` adds to ``import torch``, in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

from tests.benchmarks.common import record, table

_TIMED = """
import time
import torch
begin = time.perf_counter()
import helpers
print(time.perf_counter() - begin)
"""


def main(runs: int) -> None:
    """Report the seconds of the import, its median and its highest."""
    times = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", _TIMED], capture_output=True, text=True, check=True
        )
        times.append(float(done.stdout.split()[-1]))
    seconds = {"median seconds": median(times), "highest": max(times)}
    rows = [{"runs": runs, **{k: f"{v:.4f}" for k, v in seconds.items()}}]
    record("startup", rows)
    print(table(rows))
