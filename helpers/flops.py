"""The operations of products and attention, by torch's own table of formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

# What torch before 2.15 has no formula for, and another that has the same one.
_FUSED = "_scaled_dot_product_flash_attention"
_SAME = {
    getattr(torch.ops.aten, f"{_FUSED}_for_cpu{way}"): f"{_FUSED}{way}"
    for way in ("", "_backward")
}


def flops(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Return the operations of one aten call; 0 for what multiplies no matrices.

    Two for each multiplication and its addition.  Attention counts whole, also where a
    mask leaves half of it out.  A number, or a symbol where a size is one.  Source:
    ``torch.utils.flop_counter.flop_registry``.
    """
    packet = getattr(op, "overloadpacket", op)
    if packet is torch.ops.aten.convolution_backward:  # torch's is wrong of groups
        out, x, weight, _, *how = args[:8]
        forward = flop_registry[torch.ops.aten.convolution]
        return forward(x, weight, None, *how, out_val=out) * sum(args[10][:2])
    if packet in _SAME and packet not in flop_registry:
        packet = getattr(torch.ops.aten, _SAME[packet])
    formula = flop_registry.get(packet)
    return formula(*args, **kwargs, out_val=result) if formula else 0


def needed(op: Any, args: Sequence[Any], flops: Any) -> Any:
    """Return how many of the *flops* of an aten call no algorithm spares.

    Winograd's, or an FFT, leaves one multiplication of a convolution's whole window; a
    causal mask leaves half of attention, and another one of flex_attention nothing.
    """
    name = str(op)
    if "convolution" in name:
        weight = args[2 if "backward" in name else 1]
        return flops // prod(weight.shape[2:])
    return 0 if "flex" in name else flops // 2 if "attention" in name else flops
