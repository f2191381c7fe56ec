"""Every notebook, cold and warm: seconds and peak memory of its kernel."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests import records
from tests.benchmarks.common import table
from tests.refresh import client, notebooks
from tests.refresh import read as read_notebook


def run(path: Path) -> tuple[float, int]:
    """Return seconds and peak bytes of one run from top to bottom.

    From the start of the kernel to the end of the last cell: what a reader waits for,
    and not the second or two that Python takes to end afterwards.
    """
    runner, peak = client(read_notebook(path), path.parent), 0
    begin = time.perf_counter()
    with runner.setup_kernel():
        for number, cell in enumerate(runner.nb.cells):
            runner.execute_cell(cell, number)
            peak = max(peak, _size(runner.km.provisioner.process.pid))
        return time.perf_counter() - begin, peak


def _size(pid: int) -> int:
    """Return the peak bytes of a kernel, and what its processes have now."""
    status = Path(f"/proc/{pid}/status").read_text()
    highest = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024
    children = psutil.Process(pid).children(recursive=True)
    return highest + sum(child.memory_info().rss for child in children)


def main(chosen: Sequence[str] = ()) -> None:
    """Run each notebook twice in one cache folder that was empty before.

    *chosen* are numbers such as 06, whose rows are taken again; () is every one.
    """
    os.environ.update(COURSE_STRICT="1", HELPERS_QUIET="1")
    paths = notebooks()
    rows = records.kept("benchmarks/lessons", "notebook") if chosen else {}
    for path in paths:
        if chosen and path.stem[:2] not in chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/cache"
            os.environ["COURSE_HOME"] = f"{folder}/home"
            cold, peak = run(path)
            warm, _ = run(path)
        rows[path.stem] = {
            "notebook": path.stem,
            "cold": f"{cold:.0f} s",
            "warm": f"{warm:.0f} s",
            "peak memory": f"{peak / 2**30:.2f} GiB",
        }
        print(rows[path.stem], flush=True)
        order = [rows[p.stem] for p in paths if p.stem in rows]
        records.write("benchmarks/lessons", order)  # a failure loses nothing measured
    print(table([*rows.values()]))
