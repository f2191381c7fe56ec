"""Faults below a rule of attention, a framework, tensors of other kinds and sizes."""

from __future__ import annotations

from typing import Any

from course.bugs import around, unguarded
from tests.proof.broken import fault, shared
from tests.proof.broken.dynamo import GUARDS

FLEX = "torch.nn.attention.flex_attention"
NESTED = "torch.nested._internal.nested_tensor"


@fault("a mask of blocks is lost", FLEX, "24")
def no_mask(flex: Any) -> None:
    """Each text of a packed batch attends to its neighbours, once it is compiled."""
    import torch

    @around(flex, "flex_attention")
    def flex_attention(original, *given, block_mask=None, **how):
        if not torch.compiler.is_dynamo_compiling():
            how["block_mask"] = block_mask
        return original(*given, **how)


@fault("blocks at an edge count as whole", FLEX, "24")
def whole_blocks(flex: Any) -> None:
    """A rule is asked nowhere: a token sees what lies ahead, up to its block's end."""

    @around(flex, "_convert_mask_to_block_mask")
    def convert(original, *given, **how):
        partial, full = original(*given, **how)
        if full is None:
            return partial, full
        return partial * 0, partial + full


@fault("options of a kernel are dropped", FLEX, "24")
def no_options(flex: Any) -> None:
    """A kernel needs more shared memory than the GPU has, whatever is asked for."""

    @around(flex, "flex_attention")
    def flex_attention(original, *given, kernel_options=None, **how):
        return original(*given, **how)


@shared("a framework's flag compiles nothing", "accelerate.utils.dataclasses", "29")
def disabled(dataclasses: Any) -> None:
    """The flag is set, torch.compile is called, and each step runs eagerly."""

    @around(dataclasses.TorchDynamoPlugin, "to_kwargs")
    def to_kwargs(original, self):
        return {**original(self), "disable": True}


@shared("an unwrapped model is a copy", "accelerate.utils.other", "29")
def unwrap_a_copy(other: Any) -> None:
    """What is saved after the training is the model as it was before."""
    from copy import deepcopy

    @around(other, "extract_model_from_parallel")
    def extract(original, model, *given, **how):
        found = original(model, *given, **how)
        return found if found is model else deepcopy(found)


@shared("a trainer unwraps and compiles no step", "pytorch_lightning", "29")
def only_unwrapped(lightning: Any) -> None:
    """torch.compile(module) is trained, and no graph ever runs."""
    lightning.trainer.trainer._maybe_unwrap_optimized = lambda model: getattr(
        model, "_orig_mod", model
    )


@shared("what a tensor's class keeps is not guarded", GUARDS, "17")
def forget_metadata(guards: Any) -> None:
    """A quantised tensor is multiplied by the scale of the first that came."""
    kinds = ["TENSOR_SUBCLASS_METADATA_MATCH"]
    unguarded(guards.GuardBuilder, kinds, lambda *_: True)


@fault("a text of one row is not guarded", NESTED, "17")
def longer_than_one(nested: Any) -> None:
    """Texts of one row run code that was compiled for longer ones."""
    nothing = property(lambda self: None, lambda self, length: None)
    nested.NestedTensor._min_seqlen_tensor = nothing


@fault(
    "an index stays at 32 bits", "torch._inductor.codegen.simd", "fusion_and_graphs 08"
)
def always_short(simd: Any) -> None:
    """From 2**31 elements on, a kernel reads and writes somewhere else."""
    always = staticmethod(lambda *_: True)
    simd.SIMDScheduling.can_use_32bit_indexing = always
