"""Watches for pages: what was measured is marked, the rest compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from helpers.text import mark

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
# Times with their unit, shares, how often, and the hash of a compiled graph.
_MEASURED = re.compile(
    r"\b\d+(?:\.\d+)? ?(?:ns|[µmu]?s|%)(?!\w)"
    r"|\b\d+(?= measurements| runs)|(?<=CompiledFxGraph )\w+"
    r"|(?<=IQR:    ).*"
)


def marked(text: Any) -> str:
    """Return torch's own words, with marks round what was measured."""
    text = _ADDRESS.sub(mark("an address"), str(text))
    return _MEASURED.sub(lambda found: mark(found[0]), text)


_worker = ThreadPoolExecutor(1)


def launch(f: Callable[..., Any], *inputs: Any) -> Callable[[], Any]:
    """Start f as a GPU would, and return a function that waits for its end.

    Where the inputs are not on a GPU, a second thread plays the GPU.
    """
    if any(x.is_cuda for x in inputs):
        f(*inputs)
        return torch.cuda.synchronize
    return _worker.submit(f, *inputs).result
