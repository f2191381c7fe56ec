"""What belongs to the pages: the teaching loop, and a folder for each lesson.

    from course import check, claim, hint, predict, reveal, score, start

A lesson's folder, such as ``ch07``, has what that lesson shows, and its ``checks``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as _HOME, for editors and type checkers
    from .exercises import check, hint
    from .recordings import recorded
    from .scores import score
    from .teach import claim, predict, reveal, start

_HOME = {
    "check": "exercises",
    "claim": "teach",
    "hint": "exercises",
    "predict": "teach",
    "recorded": "recordings",
    "reveal": "teach",
    "score": "scores",
    "start": "teach",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Return the public *name*, importing its module on first use."""
    if name not in _HOME:
        raise AttributeError(
            f"course has no {name!r}; it has: {', '.join(__all__)}", name=name
        )
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that the next use is a plain look-up
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
