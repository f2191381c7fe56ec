"""What became of a lesson or an exercise that had another number once."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).resolve().parents[1] / "moved.toml"
NUMBERING = 2
"""Of the numbers that lessons have now: a file of scores says whose it holds."""


def lessons() -> dict[str, str]:
    """Return the name of each lesson's file, without its ending, by the old one."""
    return _moved()["lessons"]


def renumbered(scores: dict[str, Any]) -> dict[str, Any]:
    """Return a reader's file of scores under the numbers of today.

    An exercise that is still in the course keeps its pass.  Guesses are dropped: the
    questions are others.
    """
    if scores.get("numbering") == NUMBERING:
        return scores
    keys, passed = _moved()["exercises"], scores.get("exercises", {})
    kept = {keys[key]: entry for key, entry in passed.items() if key in keys}
    return {**scores, "numbering": NUMBERING, "predictions": {}, "exercises": kept}


@cache  # each guess and each pass reads the scores
def _moved() -> dict[str, dict[str, str]]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))
