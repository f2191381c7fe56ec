"""Runs the notebooks against each broken compiler: which cell notices, and how?

    python -m tests.proof faults                        # what is not recorded yet
    python -m tests.proof faults --fault "fusion off"   # this one, again

The notebooks that should notice come first, and the first false claim is enough.
Each row is kept as it comes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from tests.proof import common
from tests.proof.broken import FAULTS, ROOT, Fault, environment
from tests.proof.notice import Notice, notices
from tests.refresh import notebooks

CONTROL = "nothing broken"
NOBODY = "no notebook"
CACHES = ROOT / ".cache" / "faults"  # what the healthy compiler built stays here
GRAPHS = shutil.ignore_patterns("fxgraph", "aotautograd", "locks", "tmp*")


def variables(fault: Fault | None, folder: Path, home: Path) -> dict[str, str]:
    """Return the variables of a kernel with the fault, and caches of its own.

    C++ is kept by its own text, so what the healthy compiler built can be in them;
    graphs are not, for they would hide a fault.
    """
    healthy = cache = folder / "healthy"
    if fault and fault.cache != "shared":
        cache = folder / "".join(c if c.isalnum() else "-" for c in fault.name)
        if fault.cache != "empty" and healthy.exists() and not cache.exists():
            shutil.copytree(healthy, cache, ignore=GRAPHS, copy_function=_link)
    own = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "COURSE_HOME": str(home)}
    own["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool for a few kernels
    return {**environment(fault), **own}


def _link(source: str, target: str) -> None:
    with suppress(OSError):  # gone meanwhile: caches rename what they write
        os.link(source, target)


def in_order(fault: Fault | None, paths: list[Path]) -> list[Path]:
    """Return the notebooks, those first that should notice."""
    first = fault.notebooks if fault else ()
    return sorted(paths, key=lambda p: [*first, p.stem[:2]].index(p.stem[:2]))


def look(fault: Fault | None, paths: list[Path], folder: Path) -> list[Notice]:
    """Return what is noticed up to the first notebook with a false claim.

    Where only an output differs, the others that should notice have their turn: a
    claim says more.  Without a fault, every notebook runs to its end.
    """
    found: list[Notice] = []
    for path in paths:
        with tempfile.TemporaryDirectory() as home:
            own = variables(fault, folder, Path(home))
            patience = fault.patience if fault else None
            found += notices(path, own, patience, to_end=fault is None)
        if fault is None:
            continue
        if found and (
            any(notice.kind != "output differs" for notice in found)
            or path.stem[:2] not in fault.notebooks[:-1]
        ):
            break
    return found


def row(fault: Fault | None, found: list[Notice], tried: int) -> dict[str, Any]:
    """Return what is recorded of a fault: the most telling notice."""
    rest = {"noticed by": NOBODY, "cell": "", "kind": ""}
    if found:
        best = min(found, key=lambda notice: notice.rank)
        others = dict.fromkeys(n.notebook for n in found if n.notebook != best.notebook)
        rest["noticed by"] = ", ".join([best.notebook, *others])
        rest["cell"] = f"{best.number}, {best.heading}"
        rest["kind"], rest["it said"] = best.kind, best.said
    else:
        rest["it said"] = f"{tried} notebooks ran as stored"
    name, meets, how = (
        (fault.name, fault.meets, fault.how) if fault else (CONTROL, "", "")
    )
    return {"fault": name, "a user would meet": meets, "planted by": how, **rest}


def main(arguments: list[str]) -> int:
    """Run what was asked; return 1 where a fault stays unnoticed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof faults", description=__doc__.split("\n")[0]
    )
    every = {**FAULTS, CONTROL: None}  # the control runs every notebook: last
    parser.add_argument("--fault", action="append", choices=every, metavar="NAME")
    parser.add_argument("--again", action="store_true", help="redo what is recorded")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    asked = parser.parse_args(arguments)
    chosen = asked.fault or [*every]
    rows = common.kept("faults", "fault")
    todo = [n for n in chosen if asked.fault or asked.again or n not in rows]
    lock = Lock()

    def one(name: str) -> None:
        fault, begin = every[name], time.perf_counter()
        paths = in_order(fault, notebooks())
        found = row(fault, look(fault, paths, CACHES), len(paths))
        if fault and fault.cache != "shared":
            cache = variables(fault, CACHES, CACHES)["TORCHINDUCTOR_CACHE_DIR"]
            shutil.rmtree(cache, ignore_errors=True)
        with lock:
            rows[name] = found
            order = [rows[n] for n in (CONTROL, *FAULTS) if n in rows]
            common.record("faults", order, faults=len(FAULTS))
            took = f"{time.perf_counter() - begin:4.0f} s"
            print(took, name, found["noticed by"], found["it said"], flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, todo))
    # Nobody notices the control, and only that.
    bad = [n for n in chosen if (rows[n]["noticed by"] == NOBODY) != (n == CONTROL)]
    print(f"{len(chosen) - len(bad)} of {len(chosen)} are as they should be", *bad)
    return int(bool(bad))
