"""Faults that only several ranks meet: cuts of a graph, and reductions."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault, setting

WIDE = 600  # two layers of 1.4 MiB each: more than DDP's first bucket


def _one_rank() -> Any:
    """Return a model under DDP, in a group of this process alone."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    layers = [torch.nn.Linear(WIDE, WIDE) for _ in range(2)]

    class Two(torch.nn.Module):  # a built-in Sequential would be skipped
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layers

        def forward(self, x):
            return self.second(self.first(x))

    return DistributedDataParallel(Two(), bucket_cap_mb=1)


def _graphs() -> int:
    import torch

    made = []
    model = _one_rank()

    def note(graph: Any, _: Any) -> Any:
        made.append(graph)
        return graph

    compiled = torch.compile(model, backend=note)
    compiled(torch.ones(2, WIDE)).sum().backward()
    return len(made)


setting(
    "DDP's graph is not cut",
    "torch._dynamo.config",
    {"optimize_ddp": False},
    "25",
    lambda: _graphs(),
    "Training on many machines is slow: no gradient is sent before the backward ends.",
)


@fault(
    "compiled DDP forgets to reduce",
    "torch._dynamo.backends.distributed",
    "25",
    lambda: _reduces(),
)
def forget(distributed: Any) -> None:
    """Each machine trains a model of its own, and no error says so."""

    @around(distributed.DDPOptimizer, "compile_fn")
    def compile_and_forget(compile_fn, self, *given):
        from torch.nn.parallel import DistributedDataParallel

        module = DistributedDataParallel._get_active_ddp_module()
        if module is not None:
            module.require_backward_grad_sync = False
        return compile_fn(self, *given)


def _reduces() -> int:
    """Return how many buckets are reduced in the second step."""
    import torch

    full = []
    model = _one_rank()

    def hook(_, bucket):
        full.append(bucket)
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    model.register_comm_hook(None, hook)
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        full.clear()
        compiled(torch.ones(2, WIDE)).sum().backward()
    return len(full)
