"""The operations of products and attention, by torch's own table of formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.flop_counter import flop_registry


def flops(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Return the operations of one aten call; 0 for what multiplies no matrices.

    Two for each multiplication and its addition.  Attention counts whole, also where a
    mask leaves half of it out.  A number, or a symbol where a size is one.  Source:
    ``torch.utils.flop_counter.flop_registry``.
    """
    formula = flop_registry.get(getattr(op, "overloadpacket", op))
    return formula(*args, **kwargs, out_val=result) if formula else 0
