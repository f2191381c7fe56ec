"""An error as a value, so that a page can show the part that matters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def failure(function: Callable[..., Any], *inputs: Any) -> Exception | None:
    """Return the error of a call, or None; warnings are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*inputs)
        except Exception as error:
            return error
    return None
