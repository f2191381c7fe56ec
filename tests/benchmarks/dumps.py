"""Every kind of program dumped for an H100: what it becomes, checked, and how long.

On a second version of torch the same command records beside the first, and the
table says where the two differ.  With ``--real`` on a machine with a GPU it compares
the dump made with the GPU hidden with what was really compiled and ran there.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from typing import Any

import torch
from torch._inductor.utils import fresh_cache

from helpers import dump_triton
from helpers.errors import InputError
from helpers.gpu import gpus
from tests.benchmarks.common import read, record, table
from tests.kinds import KINDS, Kind
from tools import record_gpu

REFERENCE = "2.13"


def main(real: bool) -> None:
    """Dump all kinds, print the table and record it."""
    if real:
        rows = [compared(kind) for kind in KINDS.values()]
        record("dumps-real", rows, "dumps --real")
    else:
        dump_triton(torch.sin, torch.ones(8))  # what a process does once
        with fresh_cache():  # or a kernel may be one that was compiled before
            rows = [dumped(kind) for kind in KINDS.values()]
        record(name(torch.__version__), rows, "dumps")
    print(table([{k: v for k, v in row.items() if k != "code"} for row in rows]))


def name(version: str) -> str:
    """Return what the record of a version of torch is called."""
    short = ".".join(version.split(".")[:2])
    return "dumps" if short == REFERENCE else f"dumps-{short}"


def dumped(kind: Kind) -> dict[str, Any]:
    """Return one row: launches, kernels checked on the CPU, seconds."""
    fn, inputs = kind.make()
    begin = time.perf_counter()
    dump = dump_triton(fn, *inputs, training=kind.training, dynamic=kind.dynamic)
    source = time.perf_counter() - begin
    begin = time.perf_counter()
    if dump.kernels:
        assert dump.kernels[0].ptx
    ptx = time.perf_counter() - begin
    checked = dump.check_numerics() if dump.kernels else None
    row = {
        "program": kind.name,
        "launches": _shown(Counter(k.kind for k in dump.launches)),
        "to Triton": f"{source:.1f} s",
        "to PTX": f"{ptx:.1f} s" if dump.kernels else "",
        "agree with eager": f"{checked.checked} of {len(checked.kernels)}"
        if checked
        else "",
        "code": {k.name: _digest(k.source) for k in dump.kernels},
    }
    print({k: v for k, v in row.items() if k != "code"}, flush=True)
    return row


def _shown(kinds: Counter[str]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "none"


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def compared(kind: Kind) -> dict[str, Any]:
    """Return one row: the dump with the GPU hidden, against what really ran."""
    fn, inputs = kind.make()
    how = {"training": kind.training, "dynamic": kind.dynamic}
    dump = dump_triton(fn, *inputs, gpu=gpus.here().name, **how)
    with torch.device("cuda"):
        fn, inputs = kind.make()
    try:
        ran = dump_triton(fn, *inputs, gpu="this", **how)
        found = record_gpu.difference(ran, dump) or "the same"
    except InputError as error:  # such as a tensor that is made on the CPU
        found = f"not to compare: {error}"
    row = {"program": kind.name, "what ran against the dump": found}
    print(row, flush=True)
    return row


def versions() -> list[dict[str, str]]:
    """Return the recorded rows, with a column for each other version recorded."""
    rows = read("dumps")["rows"]
    shown = [{k: v for k, v in row.items() if k != "code"} for row in rows]
    for version in ("2.14", "2.15"):
        other = read(f"dumps-{version}")
        if other is None:
            continue
        theirs = {row["program"]: row for row in other["rows"]}
        for row, cells in zip(rows, shown, strict=True):
            cells[f"torch {version}"] = difference(row, theirs[row["program"]])
    return shown


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Return how another version's code for a program differs from ours."""
    if ours["launches"] != theirs["launches"]:
        return theirs["launches"]
    if list(ours["code"]) != list(theirs["code"]):
        return "other names"
    changed = sum(a != theirs["code"][n] for n, a in ours["code"].items())
    said = f"{changed} written otherwise" if changed else "same code"
    agree = theirs["agree with eager"]
    return said if agree == ours["agree with eager"] else f"{said}, {agree} agree"
