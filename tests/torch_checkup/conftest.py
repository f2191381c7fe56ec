"""What tests of the check-up share."""

import pytest

from torch_checkup.helpers import text


class Bar:
    """Stands in for the bar in a terminal: what it was made for, how far it came."""

    def __init__(self):
        self.made, self.n, self.said = (), 0, []

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
