"""Faults that a training run meets: a gradient, a mask, a rate, a write."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault
from tests.proof.broken.dynamo import optimize_with

TABLE = "torch._inductor.decomposition"


@fault("gradient of a slice lost", TABLE, "19 18")
def no_last_gradient(decomposition: Any) -> None:
    """The last row of a slice gets no gradient, and the rest is right."""
    import torch

    def backward(
        gradient: Any, sizes: Any, dim: int, start: int, end: int, step: int
    ) -> Any:
        zeros = gradient.new_zeros(sizes)
        mask = torch.arange(gradient.shape[dim], device=gradient.device)
        shape = [1] * gradient.ndim
        shape[dim] = -1
        kept = gradient * (mask < gradient.shape[dim] - 1).view(shape)
        return torch.slice_scatter(zeros, kept, dim, start, end, step)

    decomposition.decompositions[torch.ops.aten.slice_backward.default] = backward


@fault("the same mask in each call", "torch._inductor.ir", "19 06")
def one_seed(ir: Any) -> None:
    """Dropout drops the same numbers in each step: the model overfits in silence."""

    @around(ir.RandomSeeds, "__init__")
    def init(original, self, *args, **how):
        original(self, *args, **how)
        self.constant_args = [0, 1, *self.constant_args[2:]]


@fault("learning rate frozen", "torch._dynamo", "19")
def no_guard_on_the_rate(dynamo: Any) -> None:
    """A scheduler lowers the rate, and the compiled step goes on with the first."""
    keep = lambda guards: ["'lr'" not in guard.name for guard in guards]  # noqa: E731
    optimize_with(dynamo, guard_filter_fn=keep)


@fault("one write is lost", "torch._inductor.output_code", "19")
def lose_the_tenth(output_code: Any) -> None:
    """The tenth call of a graph that updates weights leaves them as they were."""
    graph = output_code.CompiledFxGraph

    @around(graph, "__call__")
    def call(original, self, given):
        written = sorted(self.mutated_input_idxs or ())
        self.calls_so_far = getattr(self, "calls_so_far", 0) + 1
        if not written or self.calls_so_far != 10:
            return original(self, given)
        before = [(given[i], given[i].clone()) for i in written]
        result = original(self, given)
        for tensor, value in before:
            tensor.copy_(value)
        return result
