"""Marks, units and tables; and a bar that is seen while work goes on, and then gone."""

import html
import re
import sys
import types

import IPython.display
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.text import (
    Table,
    count,
    kernel_shell,
    mark,
    plain,
    progress,
    seconds,
    size,
    unmark,
)


@given(st.text())
def test_what_is_marked_is_hidden_and_can_be_had_without_marks(text):
    words = text.replace("⟨", "").replace("⟩", "")
    assert plain(mark(text)) == words
    assert unmark(f"a {mark(text)} b") == "a ⟨…⟩ b"


def test_units_in_words():
    times = {0.99967: "1 s", 0.9994: "999 ms", 2e-6: "2 µs", 5e-9: "5 ns", 0: "0 ns"}
    times |= {999.4: "999 s", 1234.0: "1234 s"}
    assert {value: seconds(value) for value in times} == times
    sizes = {
        0: "0 B",
        1023: "1023 B",
        1024: "1 KiB",
        1536: "1.5 KiB",
        2**30: "1 GiB",
        2**50: "1024 TiB",
    }
    assert {value: size(value) for value in sizes} == sizes
    assert [count(1, "graph"), count(2, "graph")] == ["1 graph", "2 graphs"]


def test_a_row_has_a_cell_below_each_heading():
    with pytest.raises(ValueError, match="3 headings"):
        Table.of(["a", "b", "c"], [("a", "b")])


@given(
    st.text(
        st.characters(
            min_codepoint=32, exclude_categories=["Cs", "Cc"], exclude_characters="⟨⟩"
        )
    )
)
def test_html_shows_every_cell_as_it_is(text):
    page = Table.of(["head"], [(text,)])._repr_html_()
    cells = re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", page, re.DOTALL)
    assert [html.unescape(cell).strip("\n") for cell in cells] == ["head", text]


# --- progress ---------------------------------------------------------------------


def test_a_terminal_sees_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(IPython, "get_ipython", types.SimpleNamespace)  # no kernel
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for quiet, seen in (("1", False), ("", True)):
        monkeypatch.setenv("HELPERS_QUIET", quiet)
        with progress("work", 4) as bar:
            bar.update(1)
            bar.refresh()
        assert ("work:  25%" in capsys.readouterr().err) == seen
    monkeypatch.delitem(sys.modules, "IPython")
    assert kernel_shell() is None
