"""What is decided by the device before Inductor sees a graph, decided for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from helpers import compat
from helpers.gpus import Gpu

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
    aten, half = torch.ops.aten, query.dtype in (torch.float16, torch.bfloat16)
    width, wide = query.shape[-1], query.dim() == 4 and not enable_gqa
    aligned = width % (16 // query.element_size()) == 0
    flash = gpu.capability >= (8, 0) and width <= 256 and attn_mask is None
    if wide and half and aligned and flash:
        made = aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, scale=scale
        )
        return made[0], "flash attention"
    if wide and aligned and query.dtype is not torch.float64:
        bias, save = None, torch.is_grad_enabled() and query.requires_grad
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
    """Return Inductor's table, with the entries that ask for the device changed.

    On a CPU small products become sums, and the statistics of a normalisation are
    stored in the type of its input; a GPU does neither.
    """
    table = dict(compat.private("decompositions")())
    for name, entry in list(table.items()):
        short = str(name).removeprefix("aten.").split(".")[0]
        if short in ("mm", "bmm", "addmm"):
            del table[name]
        elif short in _NORMS:
            table[name] = _with_wide_statistics(entry)
    return table


_NORMS = {
    "native_layer_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
}


def _with_wide_statistics(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    def on_gpu(value: torch.Tensor, *rest: Any, **more: Any) -> Any:
        narrow = value.dtype in (torch.float16, torch.bfloat16)
        made = decomposition(value.float() if narrow else value, *rest, **more)
        return (made[0].to(value.dtype), *made[1:])

    return on_gpu
