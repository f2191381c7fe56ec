"""What is decided by the device before Inductor sees a graph, decided for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from torch.nn import functional

from helpers._torch import needed_for
from helpers.gpu import pretend
from helpers.gpu.gpus import Gpu

with needed_for("Triton code for a GPU that is not here"):
    from torch._inductor.decomposition import select_decomp_table


ATTENTION = "scaled_dot_product_attention"
PLAIN_ATTENTION = getattr(functional, ATTENTION)


def gpu_attention(
    gpu: Gpu,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[torch.Tensor, str]:
    """Return attention through a kernel that a GPU has for it, and that kernel's name.

    On the CPU it would be traced as the CPU's own.  The choice follows the rules in
    the documentation of ``torch.nn.attention.SDPBackend``; the device's own order of
    preference may differ, so every result says that this was not decided here.
    """
    aten, allowed = torch.ops.aten, torch.backends.cuda
    half, new = query.dtype in (torch.float16, torch.bfloat16), gpu.capability >= (8, 0)
    width, batched = query.shape[-1], query.dim() == 4
    flash = width == value.shape[-1] <= 256 and attn_mask is None
    if allowed.flash_sdp_enabled() and batched and half and new and flash:
        scale = width**-0.5 if scale is None else scale
        padded = [functional.pad(each, (0, -width % 8)) for each in (query, key, value)]
        made = aten._scaled_dot_product_flash_attention(
            *(padded if width % 8 else (query, key, value)),
            dropout_p,
            is_causal,
            scale=scale,
        )
        return made[0][..., :width] if width % 8 else made[0], "flash attention"
    widths = (width, value.shape[-1])
    aligned = all(each % (16 // query.element_size()) == 0 for each in widths)
    known = query.dtype in (torch.float32, torch.float16) or (half and new)
    enabled = allowed.mem_efficient_sdp_enabled() and not enable_gqa
    if enabled and batched and aligned and known:
        needed = any(each.requires_grad for each in (query, key, value))
        bias, save = None, torch.is_grad_enabled() and needed
        if attn_mask is not None:
            shape = (*query.shape[:2], query.shape[2], key.shape[2])
            bias = attn_mask
            if bias.dtype is torch.bool:
                zeros = torch.zeros_like(bias, dtype=query.dtype)
                bias = zeros.masked_fill(bias.logical_not(), float("-inf"))
            bias = bias.expand(shape)
        made = aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, save, dropout_p, is_causal, scale=scale
        )
        return made[0], "memory-efficient attention"
    made = aten._scaled_dot_product_attention_math(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
    return made[0], "two matrix products and a softmax"


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return Inductor's table, each entry deciding as it does on a GPU.

    On a CPU small products become sums, a normalisation has other steps and narrower
    statistics, and a convolution's backward keeps the sum for its bias.
    """
    table = select_decomp_table()
    return {name: _as_on_gpu(entry) for name, entry in table.items()}


@cache
def _as_on_gpu(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(decomposition)
    def decide(*given: Any, **more: Any) -> Any:
        with pretend.placed((given, more)) as back:
            return back(decomposition(*given, **more))

    return decide
