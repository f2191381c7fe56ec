"""`pytest tests/models` looks at all models; within `pytest tests`, at two."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models import zoo

FEW = ("bert", "llama")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes ``model`` every model, or the few."""
    if "model" not in metafunc.fixturenames:
        return
    here = Path(__file__).parent
    asked = [Path(str(arg).split("::")[0]).resolve() for arg in metafunc.config.args]
    alone = all(path.is_relative_to(here) for path in asked)
    metafunc.parametrize("model", zoo.MAKERS if alone else FEW, indirect=True)


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> zoo.Model:
    """A small model and its calls; skips when its library is not installed."""
    return zoo.build(request.param)
