"""Every kind of program dumped for an H100: what it becomes, checked, and how long.

With ``--real`` on a machine with a GPU it compares the dump made with the GPU hidden
with what was really compiled and ran there.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import torch
from torch._inductor.utils import fresh_cache

from helpers import dump_triton
from helpers.errors import InputError
from helpers.gpu import gpus
from tests import records
from tests.kinds import KINDS, Kind
from tools import record_gpu


def main(real: bool) -> None:
    """Dump all kinds, print the table and record it."""
    if real:
        rows = [compared(kind) for kind in KINDS.values()]
        records.write("benchmarks/dumps-real", rows, "tests.benchmarks dumps --real")
    else:
        dump_triton(torch.sin, torch.ones(8))  # what a process does once
        with fresh_cache():  # or a kernel may be one that was compiled before
            rows = [dumped(kind) for kind in KINDS.values()]
        records.write("benchmarks/dumps", rows)
    print(records.markdown(rows))


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
    }
    print(row, flush=True)
    return row


def _shown(kinds: Counter[str]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "none"


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
