"""What scripts of lesson 22 share: a step under the profiler, and what errors say."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from examples.train_two_ranks import Model, batch
from torch._dynamo.utils import clear_compilation_metrics, get_compilation_metrics
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import profile, record_function

NAMES = {
    "CompiledFunction": "forward",
    "CompiledFunctionBackward": "graph",
    "bucket": "bucket",
}


def watched(wrap: Callable[..., Any], device: torch.device) -> tuple[int, list[str]]:
    """Run steps of a model; return graphs of the last one, by torch's profiler.

    These are the number of graphs in the forward, and the order in which, in the
    backward, graphs begin and DDP's buckets are full.
    """
    torch.compiler.reset()
    model = wrap(Model().to(device))
    for module in model.modules():
        if isinstance(module, DDP):
            module.register_comm_hook(None, _noting)
    x, target = batch(0, device)
    for _ in range(3):  # DDP orders its buckets in the first step
        with profile() as seen:
            torch.nn.functional.mse_loss(model(x), target).backward()
    events = sorted(seen.events(), key=lambda event: event.time_range.start)
    ran = [NAMES[event.name] for event in events if event.name in NAMES]
    return ran.count("forward"), [name for name in ran if name != "forward"]


def _noting(group, bucket):  # DDP reads annotations, and wants classes in them
    with record_function("bucket"):
        return default_hooks.allreduce_hook(group, bucket)


def gathered(mine: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensor of each rank, on all ranks."""
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, mine)  # which may differ in size
    return [part.to(mine.device) for part in parts]


def measured(model: Callable[..., Any], x: torch.Tensor) -> dict[str, Any]:
    """Run a step that all ranks begin together; return its compiles and seconds."""
    clear_compilation_metrics()  # of which torch keeps the last 64
    dist.barrier()
    begin = time.monotonic()
    model(x).square().mean().backward()
    took = time.monotonic() - begin
    new = get_compilation_metrics()
    why = [one.recompile_reason for one in new if one.recompile_reason]
    return {"compiles": len(new), "why": why, "took": took}


def slow(graph: torch.fx.GraphModule, inputs: list[Any]) -> torch.fx.GraphModule:
    """A backend that takes two seconds."""
    time.sleep(2)
    return graph


def told(trial: Callable[..., Any], level: str) -> str:
    """Call trial(rank, group) with a group that waits a second; return its error.

    *level* is the TORCH_DISTRIBUTED_DEBUG of the group.
    """
    dist.barrier()  # to make a group takes both, within the second
    group = _new_group(level)
    torch.compiler.reset()
    dist.barrier()
    try:
        trial(dist.get_rank(), group)
    except RuntimeError as error:
        return core(str(error))
    return "nothing"


def _new_group(level: str) -> Any:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level
    dist.set_debug_level_from_env()
    try:
        return dist.new_group(timeout=timedelta(seconds=1))
    finally:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "OFF"
        dist.set_debug_level_from_env()


def core(message: str) -> str:
    """Return what an error of a collective says, without its addresses."""
    for begin in ("Timed out waiting", "Connection closed by peer"):
        if begin in message and "monitoredBarrier" not in message:
            return begin
    if late := re.search(r"Ranks? (\d+) failed to pass monitoredBarrier", message):
        return f"Rank {late[1]} failed to pass monitoredBarrier"
    if "Detected mismatch between collectives" in message:
        own = re.findall(r"Rank (\d+) is running collective.*?OpType=(\w+)", message)
        ran = ", ".join(f"rank {rank} {kind}" for rank, kind in sorted(own))
        return f"Detected mismatch: {ran}"
    return message.split("\n")[0][:60] or "nothing"
