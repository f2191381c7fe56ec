"""Faults of Inductor above the code: passes, patterns, lowerings, the scheduler."""

from __future__ import annotations

from typing import Any

from course.bugs import around, before_seeds, tanh_for_erf
from tests.proof.broken import fault, setting

CONFIG = "torch._inductor.config"


@fault("fusion off", "torch._inductor.scheduler", "07 11 08 06")
def no_fusion(scheduler: Any) -> None:
    """Each loop is a kernel of its own, and each result makes a trip to memory."""
    scheduler.Scheduler.can_fuse = lambda *_, **__: False


setting(
    "pattern matcher off",
    CONFIG,
    {"pattern_matcher": False},
    "inside 07",
    "Attention written by hand is no longer recognised, and takes memory by the row.",
)


@fault("pass hook never called", "torch._inductor.fx_passes.post_grad", "inside 06")
def no_hook(post_grad: Any) -> None:
    """A pass of your own is accepted as an option, and never runs."""
    post_grad.get_custom_graph_passes = lambda _: ()


@fault("wrong lowering", "torch._inductor.lowering", "07 00 18 06")
def wrong_erf(lowering: Any) -> None:
    """Answers are a little wrong, on every input, in compiled code alone."""
    tanh_for_erf(lowering.lowerings)


@fault("dropout is not repeatable", "torch._inductor.ir", "inside 07 06")
def fresh_seed(ir: Any) -> None:
    """The same seed gives another result each time: no run can be repeated."""
    before_seeds(ir.RandomSeeds, "torch.seed()")


@fault("channels_last lost", "torch._inductor.output_code", "training 21")
def channels_first(output_code: Any) -> None:
    """Pictures come out in another order of memory, and the next layer copies them."""
    import torch

    @around(output_code.CompiledFxGraph, "__call__")
    def first(call, self, inputs):
        return type(results := call(self, inputs))(
            each.contiguous() if isinstance(each, torch.Tensor) else each
            for each in results
        )


@fault("convolution a little off", "torch._inductor.lowering", "libraries 28")
def one_thousandth(lowering: Any) -> None:
    """A compiled convolution adds a small constant; other operations are right."""
    import torch

    aten = torch.ops.aten
    key = aten.convolution.default
    original, plus = lowering.lowerings[key], lowering.lowerings[aten.add.Tensor]

    def convolution(*given: Any, **how: Any) -> Any:
        return plus(original(*given, **how), 0.001)

    lowering.lowerings[key] = convolution
