"""Runs the notebooks against each broken compiler: which cell notices, and how?

    python -m tests.proof faults                        # what is not recorded yet
    python -m tests.proof faults --fault "fusion off"   # this one, again

The notebooks that should notice come first, and the first false claim is enough.
Each row is kept as it comes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from tests.proof import common
from tests.proof.broken import FAULTS, ROOT, Fault, environment
from tests.proof.notice import Notice, notices
from tests.refresh import key_of, pages
from tools.commands import command

CONTROL = "nothing broken"
NOBODY = "no notebook"
CACHES = ROOT / ".cache" / "faults"


def cache(fault: Fault | None, folder: Path) -> Path:
    """Return where kernels with the fault keep what they compile.

    A cache that the healthy compiler filled would hide a fault in what is written.
    """
    if fault is None or fault.shared:
        return folder / "healthy"
    return folder / "".join(c if c.isalnum() else "-" for c in fault.name)


def in_order(fault: Fault | None, paths: list[Path]) -> list[Path]:
    """Return the notebooks, those first that should notice."""
    first = fault.notebooks if fault else ()
    return sorted(paths, key=lambda p: [*first, key_of(p)].index(key_of(p)))


def look(fault: Fault | None, paths: list[Path], folder: Path) -> list[Notice]:
    """Return what the first page that notices anything notices.

    Without a fault, every page runs to its end.
    """
    found: list[Notice] = []
    own = {"TORCHINDUCTOR_CACHE_DIR": str(cache(fault, folder))}
    own["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool for a few kernels
    for path in paths:
        with tempfile.TemporaryDirectory() as home:
            variables = {**environment(fault), **own, "COURSE_HOME": home}
            patience = fault.patience if fault else None
            found += notices(path, variables, patience, to_end=fault is None)
        if fault and found:
            break
    return found


def row(fault: Fault | None, found: list[Notice], tried: int) -> dict[str, Any]:
    """Return what is recorded of a fault: the most telling notice."""
    what = (fault.name, fault.meets, fault.how) if fault else (CONTROL, "", "")
    notice = [NOBODY, "", "", f"{tried} notebooks ran as stored"]
    if found:
        best = min(found, key=lambda notice: notice.rank)
        cell = f"{best.number}, {best.heading}"
        notice = [best.notebook, cell, best.kind, best.said]
    columns = ("fault", "a user would meet", "planted by", "noticed by", "cell", "kind")
    return dict(zip((*columns, "it said"), (*what, *notice), strict=True))


def main(arguments: list[str]) -> int:
    """Run what was asked; return 1 where a fault stays unnoticed."""
    parser = command("tests.proof faults", __doc__, "a fault stays unnoticed")
    every = {**FAULTS, CONTROL: None}  # the control runs every notebook: last
    parser.add_argument("--fault", action="append", choices=every, metavar="NAME")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    asked = parser.parse_args(arguments)
    chosen = asked.fault or [*every]
    known = common.kept("faults", "fault")
    lock = Lock()

    def one(name: str) -> None:
        fault, begin = every[name], time.perf_counter()
        paths = in_order(fault, pages())
        found = row(fault, look(fault, paths, CACHES), len(paths))
        if fault and not fault.shared:
            shutil.rmtree(cache(fault, CACHES), ignore_errors=True)
        with lock:
            order = (CONTROL, *FAULTS)
            common.put("faults", "fault", found, order, faults=len(FAULTS))
            took = f"{time.perf_counter() - begin:4.0f} s"
            print(took, name, found["noticed by"], found["it said"], flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, asked.fault or [n for n in every if n not in known]))
    rows = common.kept("faults", "fault")
    # Nobody notices the control, and only that.
    bad = [n for n in chosen if (rows[n]["noticed by"] == NOBODY) != (n == CONTROL)]
    print(f"{len(chosen) - len(bad)} of {len(chosen)} are as they should be", *bad)
    return int(bool(bad))
