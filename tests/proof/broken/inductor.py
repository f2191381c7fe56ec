"""Faults of Inductor above the code: passes, patterns, lowerings, the scheduler."""

from __future__ import annotations

from typing import Any

from course.bugs import around, before_seeds, tanh_for_erf
from tests.proof.broken import fault, lowered


@fault("fusion off", "torch._inductor.scheduler", "07 11 08 06")
def no_fusion(scheduler: Any) -> None:
    """Each loop is a kernel of its own, and each result makes a trip to memory."""
    scheduler.Scheduler.can_fuse = lambda *_, **__: False


@fault("extra kernel", "torch._inductor.fx_passes.post_grad", "07 11 10 00")
def copy_results(post_grad: Any) -> None:
    """Every result is copied once more by a kernel that has no other use."""

    @around(post_grad, "post_grad_passes")
    def post_grad_passes(original, module, is_inference):
        original(module, is_inference)
        [out] = module.graph.find_nodes(op="output")
        with module.graph.inserting_before(out):
            copies = [_copied(module.graph, node) for node in out.args[0]]
        out.args = (type(out.args[0])(copies),)
        module.recompile()


def _copied(graph: Any, node: Any) -> Any:
    """Return a copy of node, made by a call that fuses with nothing."""
    import torch

    value = getattr(node, "meta", {}).get("val")
    if not isinstance(value, torch.Tensor):
        return node
    copy = graph.call_function(torch.ops.aten.detach_copy.default, (node,))
    copy.meta = dict(node.meta)
    return copy


@fault(
    "attention loses its scale", "torch._inductor.fx_passes.fuse_attention", "inside 07"
)
def no_scale(fuse_attention: Any) -> None:
    """A recognised pattern is replaced by something that is not quite the same."""

    @around(fuse_attention, "_scaled_dot_product_attention")
    def unscaled(original, *args, **how):
        return original(*args, **{**how, "scale": 1.0})


@fault("pass hook never called", "torch._inductor.fx_passes.post_grad", "inside 06")
def no_hook(post_grad: Any) -> None:
    """A pass of your own is accepted as an option, and never runs."""
    post_grad.get_custom_graph_passes = lambda _: ()


@fault("freezing folds nothing", "torch._inductor.freezing", "12")
def no_freezing(freezing: Any) -> None:
    """A model is frozen for serving, and computes its batch norms in every call."""
    freezing.constant_fold = freezing.binary_folding_pass = lambda *_, **__: None
    import torch._inductor.fx_passes.freezing_patterns as patterns

    patterns.freezing_passes = lambda *_, **__: None
    freezing.freezing_passes = lambda *_, **__: None


@fault("wrong lowering", "torch._inductor.lowering", "07 00 18 06")
def wrong_erf(lowering: Any) -> None:
    """Answers are a little wrong, on every input, in compiled code alone."""
    tanh_for_erf(lowering.lowerings)


@fault("dropout is not repeatable", "torch._inductor.ir", "inside 07 06")
def fresh_seed(ir: Any) -> None:
    """The same seed gives another result each time: no run can be repeated."""
    before_seeds(ir.RandomSeeds, "torch.seed()")


@fault("dtype promoted", "torch", "18 10")
def promote(torch: Any) -> None:
    """bfloat16 goes in and float32 comes out: memory doubles behind the model."""

    @around(torch._TorchCompileInductorWrapper, "__call__")
    def wide(call, self, graph, given, **how):
        run = call(self, graph, given, **how)
        narrow = torch.bfloat16

        def widened(*inputs: Any) -> Any:
            return type(given)(
                each.float() if getattr(each, "dtype", None) is narrow else each
                for each in run(*inputs)
            )

        return widened


@fault("write into a slice lost", "torch._inductor.fx_passes.reinplace", "20 06")
def forget_slices(reinplace: Any) -> None:
    """A part that the model sets to a constant keeps its old values, in silence."""
    for name in ("_decompose_scatter_functional", "_decompose_scatter_mutating"):
        setattr(reinplace, name, lambda graph, node: node.args[0])


@fault(
    "eager's roundings are not put back", "torch.fx.experimental.proxy_tensor", "21 18"
)
def no_emulation(proxy_tensor: Any) -> None:
    """The option for comparing with eager is accepted, and rounds as it did before."""
    proxy_tensor._maybe_record_pointwise_barrier = lambda *_: None


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


@fault("TF32 without leave", "torch._inductor.fx_passes.fuse_attention", "training 21")
def unasked(fuse_attention: Any) -> None:
    """float32 attention is rounded to TF32, though nobody allowed it."""
    import torch

    @around(fuse_attention, "_sfdp_params_check")
    def _sfdp_params_check(original, match):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return original(match)
        finally:
            torch.set_float32_matmul_precision(before)


@fault("convolution a little off", "torch._inductor.lowering", "libraries 28")
def one_thousandth(lowering: Any) -> None:
    """A compiled convolution adds a small constant; other operations are right."""
    import torch

    aten = torch.ops.aten
    plus = lowering.lowerings[aten.add.Tensor]

    @lowered(lowering, aten.convolution.default)
    def convolution(original, *given, **how):
        return plus(original(*given, **how), 0.001)
