"""What tests of the check-up share."""

import sys
import textwrap
from functools import partial

import pytest
import torch

from tests.refresh import ROOT
from torch_checkup import options
from torch_checkup.model import Model, found_of


def written(folder, body, make="make"):
    """Write a file that imports torch, and return the target that *make* is in it."""
    path = folder / "mine.py"
    path.write_text("import torch\n" + textwrap.dedent(body))
    return f"{path}:{make}"


@pytest.fixture(autouse=True)
def forgotten():
    """The next test has another file of that name."""
    yield
    sys.modules.pop("mine", None)


@pytest.fixture
def looked_at(tmp_path, monkeypatch):
    """A function that returns what parts find of a model, looked at in this process.

    It is compiled without kernels, which is quicker, where it does not say `built`.
    """
    order = {"budget": 0.1, "timeout": 300.0, "gpu": "h100"}
    light = partial(torch.compile, backend="aot_eager")

    def look(make, *parts, train=False, built=False):
        if not built:
            monkeypatch.setattr(torch, "compile", light)
            monkeypatch.setattr(options, "built", lambda m: {"backend": "aot_eager"})
        file = make if make.startswith(str(ROOT)) else written(tmp_path, make)
        model = Model({"target": file, "train": train, **order})
        model.try_out()
        return [found_of(model, part) for part in parts]

    usual = {"assume_static_by_default": True, "automatic_dynamic_shapes": True}
    usual |= {"capture_scalar_outputs": False}
    usual |= {"capture_dynamic_output_shape_ops": False}
    with torch._dynamo.config.patch(usual):  # options of a model set them
        yield look
