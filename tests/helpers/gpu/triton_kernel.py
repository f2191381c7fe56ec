"""Kernels as users write them."""

import triton
import triton.language as tl


@triton.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    """Store x + 1 in *out*, both of *n* numbers."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def scaled(value, factor):
    return value * factor


@triton.jit
def quoted(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # quotes: ''', and a "(
    tl.store(out + i, scaled(tl.load(x + i, mask=i < n), factor), mask=i < n)
