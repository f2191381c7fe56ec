"""What torch.compile does to your model, and what to try.

    from torch_checkup import checkup

``import torch_checkup`` imports nothing heavy: each name below is fetched from its
module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as _HOME, for editors and type checkers
    from .composing import composes
    from .explain import explain_error
    from .helpers.results import load
    from .report import checkup
    from .start import cold_start

_HOME = {
    "checkup": "report",
    "cold_start": "start",
    "composes": "composing",
    "explain_error": "explain",
    "load": "helpers.results",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Return the public *name*, importing its module on first use."""
    if name not in _HOME:
        raise AttributeError(
            f"torch_checkup has no {name!r}; it has: {', '.join(__all__)}", name=name
        )
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that the next use is a plain look-up
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
