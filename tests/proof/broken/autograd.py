"""Faults of AOTAutograd: decompositions, writes, gradients, and what is kept."""

from __future__ import annotations

from typing import Any

from course.bugs import around, negated, other_gelu
from tests.proof.broken import fault

PARTITION, TABLE = "torch._functorch.partitioners", "torch._inductor.decomposition"
CUT = "min_cut_rematerialization_partition"


@fault("partitioner saves everything", PARTITION, "06")
def save_all(partitioners: Any) -> None:
    """A training step needs as much memory as eager, or more."""
    partitioners.min_cut_rematerialization_partition = partitioners.default_partition


@fault("memory budget ignored", PARTITION, "06")
def no_budget(partitioners: Any) -> None:
    """The dial is turned down, and the step still runs out of memory."""
    from torch._functorch import config

    cut = config.patch(activation_memory_budget=1.0)(getattr(partitioners, CUT))
    setattr(partitioners, CUT, cut)


@fault("gradient with the wrong sign", PARTITION, "06 18 00")
def wrong_sign(partitioners: Any) -> None:
    """Results are right, and training climbs the hill: one gradient is negated."""

    @around(partitioners, CUT)
    def negate_then_cut(cut, joint, *rest, **how):
        return cut(negated(joint), *rest, **how)


@fault("checkpoint draws another mask", PARTITION, "06 20")
def forget_the_mask(partitioners: Any) -> None:
    """With dropout and checkpoint, gradients are wrong, without error or warning."""
    partitioners.functionalize_rng_ops = lambda joint, *both, **_: both[:2]


WRAPPERS = "torch._functorch._aot_autograd.graph_capture_wrappers"


@fault("writes into inputs are lost", WRAPPERS, "06")
def no_write(wrappers: Any) -> None:
    """A buffer or a cache that the model updates in place stays as it was."""
    wrappers.apply_in_graph_mutations = lambda *_, **__: None


@fault("gelu is not decomposed", TABLE, "06 07")
def no_gelu(decomposition: Any) -> None:
    """A common function becomes a call of its own, and fuses with nothing."""
    import torch

    decomposition.decompositions.pop(torch.ops.aten.gelu.default)


@fault("wrong decomposition", TABLE, "inside 06 00 18")
def wrong_gelu(decomposition: Any) -> None:
    """A function is taken apart into others that are only nearly the same."""
    other_gelu(decomposition.decompositions)


@fault("wrong backward decomposition", TABLE, "18 06 00")
def wrong_gelu_backward(decomposition: Any) -> None:
    """Results are right, gradients are not: training is a little worse each step."""
    import torch

    key = torch.ops.aten.gelu_backward.default
    decomposition.decompositions[key] = lambda gradient, x, **_: (
        gradient * (1.702 * x).sigmoid()
    )
