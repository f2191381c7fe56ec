"""The course's small models, for tests: one whose library is missing is skipped."""

from __future__ import annotations

import pytest
from course import models
from course.models import MAKERS, Call, Model

__all__ = ["MAKERS", "Call", "Model", "build"]


def build(name: str) -> Model:
    """Return the model *name* with the same weights each time."""
    library, _ = MAKERS[name]
    pytest.importorskip(library, reason=f"{library} is not installed")
    return models.build(name)
