"""One model is looked at on each change, in inference; the rest every week."""

from __future__ import annotations

import pytest

from course import models

WEEKLY = pytest.mark.weekly


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=[WEEKLY] * (n != "llama")) for n in models.MAKERS],
)
def model(request: pytest.FixtureRequest) -> models.Model:
    """A small model and its calls; skips when its library is not installed."""
    try:
        return models.build(request.param)
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")


@pytest.fixture(params=["inference", pytest.param("training", marks=WEEKLY)])
def training(request: pytest.FixtureRequest) -> bool:
    """Whether the backward is compiled too, which takes a minute."""
    return request.param == "training"
