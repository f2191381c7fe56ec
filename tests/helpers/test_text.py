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
    numbers_marked,
    plain,
    pre,
    progress,
    seconds,
    size,
    tell,
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
        3 * 2**20: "3 MiB",
        2**30: "1 GiB",
        2**50: "1024 TiB",
    }
    assert {value: size(value) for value in sizes} == sizes
    assert [count(1, "graph"), count(2, "graph")] == ["1 graph", "2 graphs"]


def test_a_table_is_text_in_columns():
    rows = [("a", mark("1 s"), 1, "⟨x⟩"), ("longer", "-", 22, "⟨y⟩")]
    lines = [
        "Times",
        "what    took  n   ",
        "──────  ────  ──  ",
        "a       ⟨1 s⟩  1   ⟨x⟩",
        "longer  -     22  ⟨y⟩",
    ]
    table = Table.of(["what", "took", "n", ""], rows, "Times")
    assert str(table).splitlines() == [line.rstrip() for line in lines]


def test_columns_stand_where_they_stood_whatever_is_marked():
    long, short = (
        Table.of(["what", "took", "n"], [("a", mark(time), 1), ("longer", "-", 22)])
        for time in ("1 s", "a thousand and one nights")
    )
    assert unmark(str(long)) == unmark(str(short))
    tiny = str(Table.of(["what", "took", "n"], [("longer", mark(1), 22)]))
    assert tiny.splitlines()[::2] == ["what    took  n", "longer  ⟨1⟩  22"]
    with pytest.raises(ValueError, match="3 headings"):
        Table.of(["a", "b", "c"], [("a", "b")])


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"])))
def test_html_shows_every_cell_as_it_is(text):
    page = Table.of(["head"], [(text,)])._repr_html_()
    cells = re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", page, re.DOTALL)
    assert [html.unescape(cell).strip("\n") for cell in cells] == ["head", text]


NUMBERS = "1.2 ms|0|-3|8e-05|1.35x|57%|2 threads on 2 cores|68.87 GiB free|at [1, 3]"
OTHERS = "ok|-|missing|3.11.7|2.13.0+cpu|g++ (Debian 12.2.0-14+deb12u1) 12.2.0|H100"
OTHERS += "|Triton: triton_poi_fused_add_0, load1|x86_64|cu126"


def test_html_marks_numbers_alone():
    for value in NUMBERS.split("|"):
        assert numbers_marked(f"a ⟨{value}⟩ b") == f"a ⟨{value}⟩ b", value
    for value in OTHERS.split("|"):
        assert numbers_marked(f"a ⟨{value}⟩ b") == f"a {value} b", value
    page = Table.of(["time", "is"], [("⟨1.2 ms⟩ <b>", "⟨ok⟩")])._repr_html_()
    assert ">⟨1.2 ms⟩ &lt;b&gt;</td>" in page and ">ok</td>" in page
    assert "⟨ ⟩: measured here, and different on another machine" in page
    for nothing_measured in ("3", "⟨ok⟩"):
        shown = Table.of(["graphs"], [(nothing_measured,)])._repr_html_()
        assert "⟨" not in shown and "another machine" not in shown
    block = pre("⟨3 GB/s⟩ <b>")
    assert block.startswith('<pre style="white-space:pre-wrap;')
    assert block.endswith(">⟨3 GB/s⟩ &lt;b&gt;</pre>")


# --- progress ---------------------------------------------------------------------


class Place:
    """A display that remembers what was shown."""

    def __init__(self, first):
        self.shown = [first.data]

    def update(self, html):
        self.shown.append(html.data)


@pytest.fixture
def places(monkeypatch):
    """The places of a notebook that were written to."""
    places = []

    def display(html, display_id):
        assert display_id is True  # or there is no place to write to
        places.append(Place(html))
        return places[-1]

    monkeypatch.delenv("HELPERS_QUIET", raising=False)
    shell = types.SimpleNamespace(kernel="one that runs")
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    monkeypatch.setattr(IPython.display, "display", display)
    return places


def test_a_notebook_sees_a_bar_that_ends_empty(places):
    def interrupted():
        with progress("work", 4, "points") as bar:
            bar.update(1)
            bar.refresh()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    [place] = places
    assert place.shown[0] == place.shown[-1] == ""
    lines = [re.sub("<[^>]+>", "", text) for text in place.shown]
    [line] = [text for text in lines if text.startswith("work:  25% ")]
    assert line.endswith(" 1 of 4 points") and len(line) == 72


def test_a_bar_within_another_leaves_nothing_behind(places):
    with progress("sweep", 2) as outer:
        with progress("compare", 1000) as inner:
            inner.update(1234)  # more work than was known is no error
            inner.refresh()
        outer.update(1)
    assert any("compare: " in text and "1234 of" in text for text in places[1].shown)
    for place in places:
        assert place.shown[-1] == "" and "\x1b" not in "".join(place.shown)


def test_quiet_means_quiet(places, monkeypatch, capsys):
    monkeypatch.setenv("HELPERS_QUIET", "1")
    with progress("work", 4) as bar:
        bar.update(2)
    assert not places
    monkeypatch.delenv("HELPERS_QUIET")
    # A script that has imported ipykernel is no notebook: nobody watches a file.
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    with progress("work", 4) as bar:
        bar.update(2)
    assert capsys.readouterr().err == ""


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


@pytest.mark.parametrize("quiet", [True, False])
def test_what_is_done_is_told_where_nobody_sees_a_bar(quiet, monkeypatch, capsys):
    monkeypatch.setenv("HELPERS_QUIET", str(int(quiet)))
    tell("done in ⟨3 s⟩")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "" if quiet else "done in 3 s\n")
