"""An imitation of a CUDA graph, with the same contract and no GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch


def record(
    f: Callable[..., torch.Tensor], *inputs: torch.Tensor
) -> Callable[..., torch.Tensor]:
    """Return a replay of f: fixed inputs, and one place for the result.

    A real recording would start the recorded kernels; this one calls f again.
    """
    held = [x.clone() for x in inputs]
    result = f(*held)

    def replay(*new: torch.Tensor) -> torch.Tensor:
        if [x.shape for x in new] != [x.shape for x in held]:
            raise ValueError("recorded for other shapes")
        for mine, theirs in zip(held, new, strict=True):
            mine.copy_(theirs)
        return result.copy_(f(*held))

    return replay
