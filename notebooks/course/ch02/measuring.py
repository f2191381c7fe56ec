"""What torch's own watch says, with marks round what was measured."""

from __future__ import annotations

import re
from typing import Any

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
