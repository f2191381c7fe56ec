"""What tests of the check-up share."""

import sys
import textwrap
from functools import partial

import pytest
import torch

from tests.refresh import ROOT
from torch_checkup.helpers import text
from torch_checkup.model import Model, found_of


def written(folder, body, name="mine.py"):
    """Write a file that imports torch, and return the target that it makes."""
    path = folder / name
    path.write_text("import torch\n" + textwrap.dedent(body))
    return f"{path}:make"


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
        file = make if make.startswith(str(ROOT)) else written(tmp_path, make)
        model = Model({"target": file, "train": train, **order})
        model.try_out()
        return [found_of(model, part) for part in parts]

    yield look
    sys.modules.pop("mine", None)


class Bar:
    """Stands in for the bar in a terminal: what it was made for, how far it came."""

    def __init__(self):
        self.made, self.n, self.said, self.disable = (), 0, [], False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, steps=1):
        self.n += steps

    def set_description_str(self, words):
        self.said.append(words)


@pytest.fixture
def bar(monkeypatch):
    """The bar that is shown."""
    shown = Bar()

    def progress(*made):
        shown.made = made
        return shown

    monkeypatch.setattr(text, "progress", progress)
    return shown
