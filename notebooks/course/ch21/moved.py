"""What a program launches in one call, and how its pictures lie in memory."""

from __future__ import annotations

from typing import Any

import torch

from helpers.text import count


def launches(found: Any) -> str:
    """Return how many kernels and library calls there are, in words."""
    calls = count(len(found.library), "library call")
    return f"{count(len(found.generated), 'kernel')}, {calls}"


def layout(x: torch.Tensor) -> str:
    """Return how the memory of a batch of pictures is ordered."""
    last = x.is_contiguous(memory_format=torch.channels_last)
    return "channels_last" if last else "channels first"
