"""What became of a result that was kept while later calls ran."""

from __future__ import annotations

import torch


def fate(result: torch.Tensor, wanted: torch.Tensor) -> str:
    """Return what somebody gets who uses *result* now.

    "right" and "wrong" hold its values against *wanted*; "raises" is the error of a
    result whose memory was given away.
    """
    try:
        return "right" if torch.allclose(result + 0, wanted) else "wrong"
    except RuntimeError:
        return "raises"
