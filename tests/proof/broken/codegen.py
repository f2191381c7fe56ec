"""Faults of the code that is written: C++ for this machine, Triton for a GPU."""

from __future__ import annotations

import re
from typing import Any

from course.bugs import around, on_source
from tests.proof.broken import fault

ASYNC = "torch._inductor.async_compile"
TRITON = "torch._inductor.codegen.triton"


@fault("the tail is not computed", ASYNC, "07 10 11 18")
def no_tail(async_compile: Any) -> None:
    """Sizes that are no multiple of a vector keep garbage in their last elements."""
    tail, never = "C10_UNLIKELY(", "C10_UNLIKELY(false && "
    on_source(async_compile.AsyncCompile, lambda source: source.replace(tail, never))


@fault("computed twice", "torch._inductor.codegen.common", "inside 07")
def no_cse(common: Any) -> None:
    """The same subexpression is computed again wherever it is used."""

    @around(common.CSE, "generate")
    def generate(original, self, buffer, expr, *rest, **how):
        if isinstance(expr, str) and "sin(" in expr:
            self._cache.pop(self.augment_key(expr), None)
        return original(self, buffer, expr, *rest, **how)


@fault("Triton forgets its masks", TRITON, "08")
def no_masks(module: Any) -> None:
    """The last program of a kernel reads and writes beyond the end of its tensors."""
    module.TritonKernel.filter_masks = lambda self, mask_vars: mask_vars.clear()


@fault("Triton exp wrong", TRITON, "08")
def wrong_triton_exp(module: Any) -> None:
    """A GPU computes something else than the program says, and a laptop does not."""
    usual = module.TritonOverrides.exp
    wrong = staticmethod(lambda x: usual(x).replace("exp(", "exp2("))
    module.TritonOverrides.exp = wrong


@fault("one candidate only", "torch._inductor.runtime.triton_heuristics", "12 08")
def first_config(heuristics: Any) -> None:
    """max-autotune takes its time, and has nothing to choose from."""

    @around(heuristics, "cached_autotune")
    def cached_autotune(original, hints, configs, *rest, **how):
        return original(hints, configs[:1], *rest, **how)


@fault("bfloat16 is rounded down", ASYNC, "21 18")
def truncated(async_compile: Any) -> None:
    """What is stored in bfloat16 is cut off: every result is a little too small."""
    narrow = r"(at::vec::convert<at::BFloat16,1,float,2>)\((\w+)\)"
    smaller = r"\1(\2 * at::vec::VectorizedN<float,2>(0.997f))"
    on_source(async_compile.AsyncCompile, lambda code: re.sub(narrow, smaller, code))
