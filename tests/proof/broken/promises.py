"""Faults of what a compiler promises besides the usual numbers: lesson 18."""

from __future__ import annotations

import re
from typing import Any

from course.bugs import around, on_source
from tests.proof.broken import fault, setting

ASYNC = "torch._inductor.async_compile"
CONFIG = "torch._inductor.config"
LOWERING = "torch._inductor.lowering"


@fault("two draws are one", LOWERING, "test_promises")
def one_seed_for_all(lowering: Any) -> None:
    """Two dropouts in a model drop the same numbers."""
    import torch

    op = torch.ops.prims.inductor_lookup_seed.default
    usual = lowering.lowerings[op]
    lowering.lowerings[op] = lambda seeds, index: usual(seeds, 0)


@fault("a thread's part of a sum is lost", ASYNC, "test_promises")
def one_thread_less(async_compile: Any) -> None:
    """A sum that is large enough for threads is too small."""
    on_source(
        async_compile.AsyncCompile,
        lambda source: source.replace("int tid = 0; tid <", "int tid = 1; tid <"),
    )


@fault("constants of float64 are rounded", ASYNC, "test_promises")
def short_constants(async_compile: Any) -> None:
    """A model in float64 is as exact as one in float32."""
    constant = r"static_cast<double>\((-?\d+\.\d+)\)"
    on_source(
        async_compile.AsyncCompile,
        lambda source: re.sub(constant, r"static_cast<double>(\1f)", source),
    )


setting(
    "indices unchecked",
    CONFIG,
    {"assert_indirect_indexing": False},
    "test_promises",
    "An index that is too large reads memory of somebody else, where eager raises.",
)
setting(
    "frozen without being asked",
    CONFIG,
    {"freezing": True},
    "debugging 18",
    "A service that loads new weights goes on with the old ones.",
)


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
        return re.sub(
            r"(tl\.where\([^()]*mask[^()]*, \w+), 0\)",
            r"\1, 1)",
            original(*args, **how),
        )
