"""Runs the notebooks against each broken compiler: which cell notices, and how?

    python -m tests.proof faults                        # what is not recorded yet
    python -m tests.proof faults --fault "fusion off"   # this one, again

Each notebook runs as `tests.strict` runs it, and so does tests/test_promises.py; those
that should notice first, and the first cell that differs is enough.  Each row is kept
as it comes.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from tests import failing, records
from tests.proof.broken import FAULTS, ROOT, Fault, environment
from tests.proof.versions import run
from tests.refresh import key_of, pages
from tools.commands import command

NOBODY = "no notebook"
CACHES = ROOT / ".cache" / "faults"
PROMISES = ROOT / "tests" / "test_promises.py"


def cache(fault: Fault, folder: Path) -> Path:
    """Return where kernels with the fault keep what they compile.

    A cache that the healthy compiler filled would hide a fault in what is written.
    """
    name = "".join(c if c.isalnum() else "-" for c in fault.name)
    return folder / ("healthy" if fault.shared else name)


def in_order(fault: Fault, paths: list[Path]) -> list[Path]:
    """Return the notebooks, those first that should notice."""
    first = fault.notebooks
    return sorted(paths, key=lambda p: [*first, key_of(p)].index(key_of(p)))


def look(fault: Fault, paths: list[Path], folder: Path) -> failing.Failure | None:
    """Return the first cell that notices, on the first page that has one."""
    variables = {
        **environment(fault),
        "TORCHINDUCTOR_CACHE_DIR": str(cache(fault, folder)),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool for a few kernels
    }
    patience = f"--nbval-cell-timeout={fault.patience or 600:.0f}"
    with tempfile.TemporaryDirectory() as place:
        for path in paths:
            report = Path(place) / f"{path.stem}.xml"
            run(Path(sys.executable), path, report, "-x", patience, **variables)
            if found := failing.read(report):
                return found[0]
    return None


def row(fault: Fault, found: failing.Failure | None) -> dict[str, Any]:
    """Return what is recorded of a fault: the cell that noticed, and what it said."""
    notice = [NOBODY, "", "", ""]
    if found:
        kind, _, said = found.lines[0].partition(": ")
        if kind not in ("claim", "error"):  # the new line says more than the old one
            new = [line for line in found.lines if " + " in line] or found.lines
            kind, said = "output differs", re.sub(r"^\S+ [-+] ", "", new[0])
        # Without the folders of one machine.
        said = re.sub(r"(?<![\w.])/[\w./-]+/", "…/", failing.first_line(said))
        cell = f"{found.cell}, {found.heading}"
        page = key_of(Path(found.where.removeprefix("tests.")))
        notice = [page, cell, kind, failing.short(said, 110)]
    columns = ("fault", "a user would meet", "planted by", "noticed by", "cell", "kind")
    whole = (fault.name, fault.meets, fault.how, *notice)
    return dict(zip((*columns, "it said"), whole, strict=True))


def main(arguments: list[str]) -> int:
    """Run what was asked; return 1 where a fault stays unnoticed."""
    parser = command("tests.proof faults", __doc__, "a fault stays unnoticed")
    parser.add_argument("--fault", action="append", choices=FAULTS, metavar="NAME")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    asked = parser.parse_args(arguments)
    known = records.kept("proofs/faults", "fault")
    lock = Lock()

    def one(name: str) -> None:
        fault, begin = FAULTS[name], time.perf_counter()
        found = row(fault, look(fault, in_order(fault, [*pages(), PROMISES]), CACHES))
        if not fault.shared:
            shutil.rmtree(cache(fault, CACHES), ignore_errors=True)
        with lock:
            records.put("proofs/faults", "fault", found, FAULTS)
            took = f"{time.perf_counter() - begin:4.0f} s"
            print(took, name, found["noticed by"], found["it said"], flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, asked.fault or [n for n in FAULTS if n not in known]))
    rows, chosen = records.kept("proofs/faults", "fault"), asked.fault or [*FAULTS]
    bad = [name for name in chosen if rows[name]["noticed by"] == NOBODY]
    print(f"{len(chosen) - len(bad)} of {len(chosen)} are noticed", *bad)
    return int(bool(bad))
