"""Kernels and an operator as users write them."""

import torch
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


@triton.jit
def sine(x, out, BLOCK: tl.constexpr):
    """Call a function of torch, as no kernel can."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, torch.sin(tl.load(x + i)))


@torch.library.custom_op("tests::in_a_module", mutates_args=())
def in_a_module(x: torch.Tensor) -> torch.Tensor:
    return x + 1


in_a_module.register_fake(torch.empty_like)
