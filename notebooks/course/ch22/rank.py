"""A rank that runs one script after the other; `Ranks` has torchrun start it."""

from __future__ import annotations

import json
import os
import runpy
import select
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from examples.train_two_ranks import connect


def main() -> None:
    """Join the other ranks, and run each script that is asked for."""
    device, torchrun, number = connect(seconds=120), os.getppid(), 0
    while os.getppid() == torchrun:
        order = Path(f"{number + 1}.json")
        if not order.exists():
            if select.select([sys.stdin], [], [], 0.02)[0]:
                break  # closed: who asked is gone
            continue
        number += 1
        script = json.loads(order.read_text())["script"]
        _forget()
        cut = torch._dynamo.config.optimize_ddp
        with torch._dynamo.config.patch(optimize_ddp=cut):  # a script may change it
            _leave(f"{number}-{dist.get_rank()}.json", _told(script, device))


def _told(script: str, device: torch.device) -> dict[str, Any]:
    try:
        found = runpy.run_path(script)["main"](device)
        dist.barrier()  # no rank goes on while gloo still frees a tensor
    except Exception:
        return {"error": traceback.format_exc()}
    return {"found": found}


def _forget() -> None:
    """Forget what was compiled, and the page's own modules, which may be new."""
    torch.compiler.reset()
    here = str(Path.cwd())
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(here):
            del sys.modules[name]


def _leave(name: str, found: dict[str, Any]) -> None:
    Path(f"{name}.new").write_text(json.dumps(found))
    Path(f"{name}.new").rename(name)  # whole, or not there


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # Python's own end may wait for ever for a thread of gloo
    os._exit(0)
