"""Faults of what a compiler promises besides the usual numbers: lesson 18."""

from __future__ import annotations

import re
from typing import Any

from course.bugs import around, on_source
from tests.proof.broken import fault, lowered

ASYNC = "torch._inductor.async_compile"
LOWERING = "torch._inductor.lowering"


@fault("the first of two writes stays", LOWERING, "debugging 18")
def reversed_writes(lowering: Any) -> None:
    """Where an index occurs twice, compiled code keeps another value than eager."""
    import torch

    aten = torch.ops.aten
    flip = lowering.lowerings[torch.ops.prims.rev.default]

    def turned(x: Any) -> Any:
        return flip(x, [0]) if len(x.get_size()) == 1 else x

    @lowered(lowering, aten.index_put.default)
    def index_put(usual, x, indices, values, accumulate=False):
        if not accumulate:
            indices, values = [turned(i) for i in indices], turned(values)
        return usual(x, indices, values, accumulate)

    @lowered(lowering, aten.scatter.src)
    def scatter_src(usual, x, dim, index, source):
        return usual(x, dim, turned(index), turned(source))


@fault("argmax counts in the order of memory", LOWERING, "debugging 18")
def argmax_of_memory(lowering: Any) -> None:
    """The place of the largest number is that of another, where x is transposed."""
    import torch

    permute = lowering.lowerings[torch.ops.aten.permute.default]

    @lowered(lowering, torch.ops.aten.argmax.default)
    def argmax(usual, x, dim=None, keepdim=False):
        strides = x.maybe_get_stride()
        turned = dim is None and strides and len(strides) == 2
        if turned and strides[0] < strides[1]:
            x = permute(x, [1, 0])
        return usual(x, dim, keepdim)


@fault("an int8 product is widened", LOWERING, "debugging 18")
def wide_product(lowering: Any) -> None:
    """A product of int8 comes back as int32, and the next operator gets no int8."""
    import torch

    @lowered(lowering, torch.ops.aten.mul.Tensor)
    def mul(usual, a, b):
        if all(getattr(x, "get_dtype", int)() == torch.int8 for x in (a, b)):
            a, b = (lowering.to_dtype(x, torch.int32) for x in (a, b))
        return usual(a, b)


@fault("two draws are one", LOWERING, "test_promises")
def one_seed_for_all(lowering: Any) -> None:
    """Two dropouts in a model drop the same numbers."""
    import torch

    @lowered(lowering, torch.ops.prims.inductor_lookup_seed.default)
    def first_seed(usual, seeds, index):
        return usual(seeds, 0)


@fault("a thread's part of a sum is lost", ASYNC, "test_promises")
def one_thread_less(async_compile: Any) -> None:
    """A sum that is large enough for threads is too small."""
    first, second = "int tid = 0; tid <", "int tid = 1; tid <"
    on_source(async_compile.AsyncCompile, lambda code: code.replace(first, second))


@fault("constants of float64 are rounded", ASYNC, "test_promises")
def short_constants(async_compile: Any) -> None:
    """A model in float64 is as exact as one in float32."""
    constant = r"static_cast<double>\((-?\d+\.\d+)\)"
    single = r"static_cast<double>(\1f)"
    on_source(async_compile.AsyncCompile, lambda code: re.sub(constant, single, code))


REGISTRATIONS = "torch._meta_registrations"


@fault("an overlapping write is let through", REGISTRATIONS, "debugging 18")
def overlap_unseen(registrations: Any) -> None:
    """What raises in eager mode gives numbers when compiled, and says nothing."""
    registrations.torch._debug_has_internal_overlap = lambda _: 0


@fault("the place of a break is lost", "torch._dynamo.output_graph", "test_promises")
def no_place(output_graph: Any) -> None:
    """A graph breaks, and nothing says on which line."""

    @around(output_graph.GraphCompileReason, "__post_init__")
    def post_init(original, self):
        self.user_stack = self.user_stack[:-1]
        original(self)


@fault("a masked lane counts", "torch._inductor.codegen.triton", "debugging 18")
def masked_lanes(triton: Any) -> None:
    """On a GPU, a row that fills no block is summed with what lies beyond it."""

    @around(triton.TritonKernel, "codegen_kernel")
    def codegen_kernel(original, *args, **how):
        masked = r"(tl\.where\([^()]*mask[^()]*, \w+), 0\)"
        return re.sub(masked, r"\1, 1)", original(*args, **how))
