"""Runs the notebooks against each broken compiler: which cell notices, and how?

    python -m tests.proof faults                        # the first notebook to notice
    python -m tests.proof faults --fault "fusion off" --all
    python -m tests.proof faults --probe                # is each fault really planted?

Rows are kept as they come: a second run does what is missing, `--again` all of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from tests.proof import common
from tests.proof.broken import FAULTS, ROOT, Fault, environment
from tests.proof.notice import KINDS, Notice, notices
from tests.refresh import notebooks

CONTROL = "nothing broken"
NOBODY = "no notebook"
CACHES = ROOT / ".cache" / "faults"  # what the healthy compiler built stays here
GRAPHS = shutil.ignore_patterns("fxgraph", "aotautograd", "locks", "tmp*")


def around(fault: Fault | None, folder: Path, home: Path) -> dict[str, str]:
    """Return the variables of a kernel with the fault, and caches of its own.

    C++ is kept by its own text, so what the healthy compiler built can be in them;
    graphs are not, for they would hide a fault.
    """
    healthy = cache = folder / "healthy"
    if fault and fault.cache != "shared":
        cache = folder / _plain(fault.name)
        if fault.cache != "empty" and healthy.exists() and not cache.exists():
            shutil.copytree(healthy, cache, ignore=GRAPHS, copy_function=_link)
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "COURSE_HOME": str(home)}
    variables["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no pool for a few kernels
    return {**environment(fault), **variables}


def _link(source: str, target: str) -> None:
    with suppress(OSError):  # gone meanwhile: caches rename what they write
        os.link(source, target)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)


def look(
    fault: Fault | None,
    paths: list[Path],
    folder: Path,
    every: bool = False,
    jobs: int = 1,
) -> list[Notice]:
    """Return the notices of the first notebook that has any, or of every one.

    The first one is left at the first claim that is false.  Where only an output
    differs, the others that should notice have their turn: a claim says more.
    """

    def at(path: Path) -> list[Notice]:
        patience = fault.patience if fault else None
        with tempfile.TemporaryDirectory() as home:
            variables = around(fault, folder, Path(home))
            return notices(path, variables, patience, to_end=every)

    found: list[Notice] = []
    if every:
        with ThreadPoolExecutor(jobs) as pool:
            return [notice for one in pool.map(at, paths) for notice in one]
    for path in paths:
        found += at(path)
        expected = fault is None or path.stem[:2] in fault.notebooks[:-1]
        if any(notice.kind != KINDS[-1] for notice in found):
            break
        if found and not expected:
            break
    return found


def in_order(fault: Fault | None, paths: list[Path]) -> list[Path]:
    """Return the notebooks, those first that should notice."""
    first = fault.notebooks if fault else ()
    return sorted(paths, key=lambda p: [*first, p.stem[:2]].index(p.stem[:2]))


def row(fault: Fault | None, found: list[Notice], tried: int) -> dict[str, Any]:
    """Return what is recorded of a fault: the most telling notice."""
    name, meets, how = CONTROL, "", ""
    if fault:
        name, meets, how = fault.name, fault.meets, fault.how
    who = list(dict.fromkeys(notice.notebook for notice in found))
    rest = {"noticed by": NOBODY, "cell": "", "kind": "", "it said": ""}
    if found:
        best = min(found, key=lambda notice: notice.rank)
        others = [other for other in who if other != best.notebook]
        rest["noticed by"] = best.notebook + "".join(f", {other}" for other in others)
        rest["cell"] = f"{best.number}, {best.heading}"
        rest["kind"], rest["it said"] = best.kind, best.said
    elif fault and fault.unnoticed:
        looked = ", ".join(fault.notebooks)
        rest["it said"] = f"as expected, looked for in {looked}: {fault.unnoticed}"
    else:
        rest["it said"] = f"{tried} notebooks ran as stored"
    return {"fault": name, "a user would meet": meets, "planted by": how, **rest}


def probe(fault: Fault | None, names: list[str], folder: Path) -> list[str]:
    """Return what the probes of these faults see in processes with *fault*."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.proof.broken", *names],
        env=around(fault, folder, folder),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().split("\n")[-len(names) :]
    return [line or f"ended with {done.returncode}" for line in lines]


def probe_all(chosen: list[Fault], jobs: int, folder: Path) -> int:
    """Print what each probe sees; return how many faults are not planted."""
    names, missing = [fault.name for fault in chosen], 0
    healthy = probe(None, names, folder)
    with ThreadPoolExecutor(jobs) as pool:
        broken = pool.map(lambda f: probe(f, [f.name], folder)[0], chosen)
        for name, before, after in zip(names, healthy, broken, strict=True):
            missing += before == after
            verdict = "NOT PLANTED" if before == after else "planted"
            print(f"{verdict}  {name}\n  {before}\n  {after}", flush=True)
    print(f"{len(chosen) - missing} of {len(chosen)} faults are planted")
    return missing


class Table:
    """The rows so far, kept on disk after each one, in the order of the faults."""

    def __init__(self, keep: bool) -> None:
        kept = common.read("faults") if keep else None
        self.rows = {row["fault"]: row for row in (kept or {}).get("rows", [])}
        self.keep, self.lock = keep, Lock()

    def add(self, row: dict[str, Any], took: float) -> None:
        """Keep a row, and print it."""
        with self.lock:
            self.rows[row["fault"]] = row
            names = [CONTROL, *FAULTS]
            rows = [self.rows[name] for name in names if name in self.rows]
            if self.keep:
                common.record("faults", rows, faults=len(FAULTS))
            cell = f"{row['noticed by']} [{row['kind']}] {row['it said']}"
            print(f"{took:4.0f} s  {row['fault']}: {cell}", flush=True)


def main(arguments: list[str]) -> int:
    """Run what was asked; return 1 where a fault stays unnoticed without a reason."""
    asked = _parser().parse_args(arguments)
    every = {CONTROL: None, **FAULTS}
    chosen = {name: every[name] for name in asked.fault or every}
    if asked.probe:
        faults = [fault for fault in chosen.values() if fault]
        with tempfile.TemporaryDirectory() as folder:
            return int(probe_all(faults, asked.jobs, Path(folder)) > 0)
    paths = [p for p in notebooks() if p.stem[:2] in (asked.notebook or p.stem)]
    table = Table(keep=not asked.notebook)
    anew = asked.again or bool(asked.fault)
    todo = [name for name in chosen if anew or name not in table.rows]
    todo.sort(key=lambda name: name == CONTROL)  # all of the notebooks: last
    one = partial(_one, every, paths, asked.all, asked.jobs, table)
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, todo))
    bad = [name for name in chosen if not _as_it_should(table.rows[name], every[name])]
    good = len(chosen) - len(bad)
    print(f"{good} of {len(chosen)} are as they should be", *bad, sep="\n")
    return int(bool(bad))


def _one(
    every: dict[str, Fault | None],
    paths: list[Path],
    go_on: bool,
    jobs: int,
    table: Table,
    name: str,
) -> None:
    fault, begin = every[name], time.perf_counter()
    order, wide = in_order(fault, paths), go_on or fault is None
    if fault and fault.unnoticed and not wide:  # where it would show, if anywhere
        order = order[: len(fault.notebooks)]
    found = look(fault, order, CACHES, wide, jobs if fault is None else 1)
    table.add(row(fault, found, len(paths)), time.perf_counter() - begin)
    shutil.rmtree(CACHES / _plain(name), ignore_errors=True)


def _as_it_should(row: dict[str, Any], fault: Fault | None) -> bool:
    noticed = row["noticed by"] != NOBODY
    return noticed != (fault is None or bool(fault.unnoticed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof faults", description=__doc__.split("\n")[0]
    )
    names = [CONTROL, *FAULTS]
    parser.add_argument("--fault", action="append", choices=names, metavar="NAME")
    parser.add_argument("--notebook", action="append", metavar="05")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--first", action="store_true", help="stop where it is noticed")
    how.add_argument("--all", action="store_true", help="go through every notebook")
    parser.add_argument("--again", action="store_true", help="redo what is recorded")
    parser.add_argument("--probe", action="store_true", help="only see the faults work")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    return parser
