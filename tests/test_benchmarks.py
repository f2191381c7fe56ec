"""The figures of the pages are those that a command of the repository recorded."""

import pytest

from tests.benchmarks import report
from tests.records import read


@pytest.mark.parametrize("page", report.PAGES, ids=lambda p: p.parent.name)
def test_a_page_says_what_was_recorded(page):
    text = page.read_text(encoding="utf-8")
    assert report.render(page, text) == text, "run `python -m tests.benchmarks report`"


@pytest.mark.parametrize("name", report.NAMES)
def test_every_figure_was_measured_and_says_where(name):
    kept = read(f"benchmarks/{name}")
    assert kept, f"python -m tests.benchmarks {name}"
    assert kept["machine"]["torch"] and kept["rows"]
