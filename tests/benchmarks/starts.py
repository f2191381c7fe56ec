"""What a first call costs after each way to ship a cache: the record of lesson 25."""

from __future__ import annotations

import dataclasses
import os
from unittest import mock

from tests.records import DATA
from torch_checkup import cold_start

MODEL = DATA.parent / "notebooks" / "examples" / "warm_model.py"
LEAN = {
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
}
RUNS = {
    "starts": (("empty", "warm", "copied", "artifacts"), {}),
    "starts-lean": (("empty", "copied"), LEAN),
    "starts-precompiled": (
        ("empty", "copied"),
        {**LEAN, "TORCH_CACHING_PRECOMPILE": "1"},
    ),
}


def main() -> None:
    """Start a small model in each way, and keep the results."""
    command = "python -m tests.benchmarks starts"
    for name, (ways, env) in RUNS.items():
        with mock.patch.dict(os.environ, env):
            result = cold_start(f"{MODEL}:make", ways)
        dataclasses.replace(result, command=command).save(
            DATA / "benchmarks" / f"{name}.json"
        )
        print(name, result, sep="\n")
