"""The process in which ``cold_start`` calls a compiled function for the first time.

    python -m torch_checkup.start_child < order.json

What it finds goes to the report file as it comes, a line of JSON each, so that a
process that dies has said how far it came.  It imports torch where it times it.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from .guest import Report, end_with_parent, made_by, trained


def main(order: dict[str, Any]) -> None:
    """Do what was ordered, and report."""
    end_with_parent()
    report = Report(order["report"])
    report.stage("import torch")
    import torch

    report.stage("load the compiler")
    for name in ("async_compile", "compile_fx"):  # or the first compile loads them
        import_module(f"torch._inductor.{name}")

    from . import records  # here, for these import torch
    from .helpers import _torch, correctness

    report.stage("make the model")
    fn, inputs, kwargs, loss = made_by(order["target"])
    if order["load"]:
        report.stage("load the artifacts")
        info = torch.compiler.load_cache_artifacts(Path(order["load"]).read_bytes())
        report.end("load_s")
        report.put(loaded=info is not None)

    report.stage("the first call")
    compiled = torch.compile(fn, **order["options"])  # which may load already
    sides = [fn, compiled]
    if order["train"]:
        sides = [trained(side, loss or correctness.weighted_sum) for side in sides]
    eager, ours = (partial(side, *inputs, **kwargs) for side in sides)
    with torch.set_grad_enabled(order["train"]), _torch.trace() as events:
        ours()
        report.end("first_s")
    report.put(phases=records.phases(), lookups=records.lookups(events))
    if order["save"]:
        report.stage("save the artifacts")
        saved = torch.compiler.save_cache_artifacts()
        if saved is not None:
            Path(order["save"]).write_bytes(saved[0])
    report.stage("compare with eager")
    with torch.set_grad_enabled(order["train"]):
        report.put(agrees=records.agrees(eager, ours))
    report.put(done=True)


if __name__ == "__main__":
    main(json.load(sys.stdin))
