"""Progress is seen while work goes on, and leaves nothing behind."""

import sys
import types

import IPython.display
import pytest

from helpers import progress
from helpers.progress import Progress


class Handle:
    """A display that remembers what was shown."""

    def __init__(self, first):
        self.shown = [first.data]

    def update(self, html):
        self.shown.append(html.data)


@pytest.fixture
def handles(monkeypatch):
    made = []

    def display(html, display_id):
        made.append(Handle(html))
        return made[-1]

    monkeypatch.delenv("COURSE_QUIET", raising=False)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setattr(IPython.display, "display", display)
    return made


def test_a_notebook_sees_a_bar_that_ends_empty(handles, monkeypatch):
    times = iter(range(1, 100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with Progress("work", 4, "points") as bar:
        bar.at(1)
        bar.at(9, "size <2>")
    first, one, most, last = handles[0].shown
    assert "work: 0 of 4 points" in first
    assert 'value="1" max="4"' in one
    assert 'value="4"' in most and "size &lt;2&gt;" in most
    assert last == ""


def test_an_interrupt_leaves_no_bar(handles):
    with pytest.raises(KeyboardInterrupt), Progress("work", 4):
        raise KeyboardInterrupt
    assert handles[0].shown[-1] == ""


def test_quiet_means_quiet(handles, monkeypatch):
    monkeypatch.setenv("COURSE_QUIET", "1")
    with Progress("work", 4) as bar:
        bar.at(2)
    assert not handles
