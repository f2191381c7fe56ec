"""Faults that only several ranks meet: cuts of a graph, and reductions."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault, setting

setting(
    "DDP's graph is not cut",
    "torch._dynamo.config",
    {"optimize_ddp": False},
    "25",
    "Training on many machines is slow: no gradient is sent before the backward ends.",
)


@fault("compiled DDP forgets to reduce", "torch._dynamo.backends.distributed", "25")
def forget(distributed: Any) -> None:
    """Each machine trains a model of its own, and no error says so."""

    @around(distributed.DDPOptimizer, "compile_fn")
    def compile_and_forget(compile_fn, self, *given):
        from torch.nn.parallel import DistributedDataParallel

        module = DistributedDataParallel._get_active_ddp_module()
        if module is not None:
            module.require_backward_grad_sync = False
        return compile_fn(self, *given)
