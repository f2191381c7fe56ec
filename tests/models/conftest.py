"""`pytest tests/models` looks at all models; within `pytest tests`, at two.

Of these two the backward is left out as well: compiling it takes a minute.  So is
what looks at one model in a way of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from course import models

FEW = ("bert", "llama")


def _asked_for(config: pytest.Config) -> bool:
    here = Path(__file__).parent
    paths = [Path(str(arg).split("::")[0]).resolve() for arg in config.args]
    return all(path.is_relative_to(here) for path in paths)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes ``model`` every model, or the few."""
    if "model" in metafunc.fixturenames:
        names = models.MAKERS if _asked_for(metafunc.config) else FEW
        metafunc.parametrize("model", names, indirect=True, scope="module")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what takes no ``model``, unless these tests are asked for."""
    if "model" not in item.fixturenames and not _asked_for(item.config):
        pytest.skip("run by `pytest tests/models`")


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> models.Model:
    """A small model and its calls; skips when its library is not installed."""
    try:
        return models.build(request.param)
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")


@pytest.fixture(params=[False, True], ids=["inference", "training"])
def training(request: pytest.FixtureRequest) -> bool:
    """Whether the backward is compiled too."""
    if request.param and not _asked_for(request.config):
        pytest.skip("the backward is compiled by `pytest tests/models`")
    return request.param
