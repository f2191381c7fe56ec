"""The figures of the pages are those that a command of the repository recorded."""

import pytest

from tests.proof import report
from tests.records import read


@pytest.mark.parametrize("page", report.PAGES, ids=lambda p: p.parent.name)
def test_a_page_says_what_was_recorded(page):
    text = page.read_text(encoding="utf-8")
    assert report.render(page, text) == text, "run `python -m tests.proof report`"


def test_every_figure_was_measured_and_says_where():
    for name in (n for names in report.PAGES.values() for n in names):
        if name != "proofs/browser":  # it runs for hours, and waits for a quiet week
            assert read(name)["machine"]["torch"] and read(name)["rows"]
