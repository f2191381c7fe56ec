"""Faults of AOTAutograd: decompositions, writes, gradients, and what is kept."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import fault, probes, setting
from tests.proof.broken.probes import code, gradient_right, inputs, right

PARTITION, TABLE = "torch._functorch.partitioners", "torch._inductor.decomposition"
CUT = "min_cut_rematerialization_partition"


def saved(**settings: Any) -> int:
    """Return how many bytes compiled block keeps for its backward."""
    import torch
    from torch._functorch import config

    sizes = []
    given = [tensor.requires_grad_() for tensor in inputs()]

    def pack(tensor: Any) -> Any:
        sizes.append(tensor.nbytes)
        return tensor

    with (
        config.patch(settings),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        torch.compile(probes.block, backend="aot_eager")(*given)
    return sum(sizes)


@fault("partitioner saves everything", PARTITION, "06", saved)
def save_all(partitioners: Any) -> None:
    """A training step needs as much memory as eager, or more."""
    partitioners.min_cut_rematerialization_partition = partitioners.default_partition


@fault(
    "memory budget ignored",
    PARTITION,
    "06",
    lambda: saved(activation_memory_budget=0.0),
)
def no_budget(partitioners: Any) -> None:
    """The dial is turned down, and the step still runs out of memory."""
    from torch._functorch import config

    cut = config.patch(activation_memory_budget=1.0)(getattr(partitioners, CUT))
    setattr(partitioners, CUT, cut)


@fault("gradient with the wrong sign", PARTITION, "06 05 16 18 00", gradient_right)
def wrong_sign(partitioners: Any) -> None:
    """Results are right, and training climbs the hill: one gradient is negated."""
    import torch

    cut = getattr(partitioners, CUT)

    def negate_then_cut(joint: Any, *rest: Any, **how: Any) -> Any:
        [out] = joint.graph.find_nodes(op="output")
        last = [node for node in out.args[0] if node is not None][-1]
        with joint.graph.inserting_before(out):
            minus = joint.graph.call_function(torch.ops.aten.neg.default, (last,))
        minus.meta = dict(last.meta)
        out.args = ([minus if node is last else node for node in out.args[0]],)
        joint.recompile()
        return cut(joint, *rest, **how)

    setattr(partitioners, CUT, negate_then_cut)


@fault("checkpoint draws another mask", PARTITION, "06 20", lambda: _same_mask())
def forget_the_mask(partitioners: Any) -> None:
    """With dropout and checkpoint, gradients are wrong, without error or warning."""
    partitioners.functionalize_rng_ops = lambda joint, forward, backward, *_, **__: (
        forward,
        backward,
    )


def _same_mask() -> bool:
    import torch
    from torch.utils.checkpoint import checkpoint

    def noisy(x: Any) -> Any:
        return torch.nn.functional.dropout(torch.tanh(x), 0.5)

    def fn(x: Any) -> Any:
        return checkpoint(noisy, x, use_reentrant=False)

    x = inputs()[0].requires_grad_()
    result = torch.compile(fn, backend="aot_eager")(x)
    [gradient] = torch.autograd.grad(result.sum(), x)
    return torch.equal(result == 0, gradient == 0)


WRAPPERS = "torch._functorch._aot_autograd.graph_capture_wrappers"


@fault("writes into inputs are lost", WRAPPERS, "05 06", lambda: _written())
def no_write(wrappers: Any) -> None:
    """A buffer or a cache that the model updates in place stays as it was."""
    wrappers.apply_in_graph_mutations = lambda *_, **__: None


def _written() -> float:
    import torch

    x = torch.zeros(4)
    torch.compile(lambda x: x.add_(1) * 2)(x)
    return float(x.sum())


@fault("gelu is not decomposed", TABLE, "05 07", lambda: "erf(" in code())
def no_gelu(decomposition: Any) -> None:
    """A common function becomes a call of its own, and fuses with nothing."""
    import torch

    decomposition.decompositions.pop(torch.ops.aten.gelu.default)


@fault("wrong decomposition", TABLE, "05 00 16 18", right)
def wrong_gelu(decomposition: Any) -> None:
    """A function is taken apart into others that are only nearly the same."""
    import torch

    decomposition.decompositions[torch.ops.aten.gelu.default] = lambda x, **_: (
        x * (1.702 * x).sigmoid()
    )


@fault("wrong backward decomposition", TABLE, "16 05 18 00", gradient_right)
def wrong_gelu_backward(decomposition: Any) -> None:
    """Results are right, gradients are not: training is a little worse each step."""
    import torch

    key = torch.ops.aten.gelu_backward.default
    decomposition.decompositions[key] = lambda gradient, x, **_: (
        gradient * (1.702 * x).sigmoid()
    )


setting(
    "random numbers as in eager",
    "torch._inductor.config",
    {"fallback_random": True},
    "07 06",
    lambda: (
        "philox" in code(_noisy, inputs()[0]) or "randint" in code(_noisy, inputs()[0])
    ),
    "Each dropout costs a launch of its own: the library draws, no kernel does.",
)


def _noisy(x: Any) -> Any:
    import torch

    return torch.nn.functional.dropout(x, 0.5)
