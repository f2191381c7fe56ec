"""The report as a page: it stands alone, hides nothing, and has tables as tables."""

import dataclasses
import re

from tests.refresh import notebooks
from torch_checkup.checkups import QUESTIONS, Checkup, Part
from torch_checkup.differences import Difference
from torch_checkup.helpers.results import Machine
from torch_checkup.helpers.text import Table
from torch_checkup.page import headline, pieces


def page_of(*parts, interrupted=False):
    return Checkup("mine:make", parts, False, 1, interrupted).to_html()


def cells(page):
    """Return the rows of the tables behind the overview, tags removed."""
    body = page.split("</details>", 1)[1]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    cut = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[re.sub("<[^>]+>", "", cell) for cell in row] for row in cut]


def test_it_stands_alone_and_hides_nothing():
    part = Part("matches", "bad", "a <b> differs", advice=("write & run",))
    evidence = Part("traffic", "look", "x < y", evidence=("one\ntwo",))
    page = page_of(part, evidence, interrupted=True)
    assert "&lt;b&gt;" in page and "x &lt; y" in page and "write &amp; run" in page
    assert "<script" not in page and "http" not in page and "Interrupted" in page


def test_each_part_says_why_it_is_asked_and_only_an_ill_one_what_to_do():
    for name in QUESTIONS:
        good, ill = (page_of(Part(name, verdict, "x")) for verdict in ("good", "bad"))
        added = len(re.findall("<p>", ill)) - len(re.findall("<p>", good))
        assert added == 1, name


def test_the_headline_counts_verdicts():
    verdicts = ("good", "cannot tell", "good", "bad")
    parts = [Part("matches", verdict, "") for verdict in verdicts]
    assert headline(parts) == "2 good, 1 bad, 1 cannot tell"


def test_what_differs_is_a_table_before_the_evidence():
    one = Difference(2, "output", "shape", "(2, 3)", "(3,)")
    evidence = str(Table.of(["a", "b"], [("1", "2")]))
    page = page_of(Part("matches", "bad", "", {}, (evidence,), differences=(one,)))
    head, row, *other = cells(page)
    assert [head, row] == [
        ["call", "place", "field", "eager", "compiled"],
        ["2", "output", "shape", "(2, 3)", "(3,)"],
    ]
    assert other == [["a", "b"], ["1", "2"]]


def test_its_foot_says_on_which_machine_without_what_is_unknown():
    machine = Machine("a CPU", 2, None, 3 * 2**30, None, None, "s", "3", "2", None)
    found = dataclasses.replace(Checkup("mine:make", (), False, 1), machine=machine)
    foot = found.to_html().split("<footer>")[1]
    known = re.findall(r"(\w+): ([^<\n]+?)(?= ·|\n)", foot)
    assert known == [
        ("cpu", "a CPU"),
        *(("cores", "2"), ("system", "s"), ("python", "3"), ("torch", "2")),
        ("memory", "3 GiB"),
    ]


def test_a_table_with_measured_and_empty_cells_is_a_table():
    rows = [("now", "⟨11⟩", "1 B", "a note"), ("then, later", "⟨0⟩", "856 B", "")]
    plain = [("none", "", "2 B", "b"), ("two  gaps", "3", "4", "c")]
    head = ["way", "built", "ships", "costs"]
    text = f"of all\n{Table.of(head, [*rows[:1], *plain])}\n\nwarm: a second"
    before, table, after = pieces(Part("start", "good", "", evidence=(text,)))
    assert (before, after) == ("of all", "warm: a second")
    assert [*table.rows] == [*rows[:1], *plain]
    assert ["none", "", "2 B", "b"] in cells(
        page_of(Part("start", "good", "", {}, (text,)))
    )
    # A measured cell shifts its row, and an empty last one leaves it short: as text.
    short = str(Table.of(head, rows[::-1]))
    assert "856 B" in page_of(Part("start", "good", "", {}, (short,)))


def test_only_a_long_table_is_folded():
    def folded(rows):
        table = Table.of(["n"] * 2, [(str(n), "x") for n in range(rows)])
        return page_of(Part("traffic", "good", "", {}, (str(table),))).count(
            "<details>"
        )

    assert folded(30) == folded(3) + 1


def test_a_lesson_is_linked_where_the_site_is_known(monkeypatch):
    part = Part("matches", "good", "x")
    monkeypatch.delenv("TORCH_CHECKUP_COURSE", raising=False)
    assert "<a" not in page_of(part).split("<section")[1]
    monkeypatch.setenv("TORCH_CHECKUP_COURSE", "https://course.example/a&b/")
    link = '<a href="https://course.example/a&amp;b/18_which_layer_is_wrong_and_would_i_notice.html">16 ·'
    assert link in page_of(part)


def test_it_names_each_lesson_as_it_is_called():
    page = page_of(*(Part(name, "good", "") for name in QUESTIONS))
    named = re.findall(r"<p>Lesson (\d\d · [^(]+) \((notebooks/[^)]+)\)</p>", page)
    files = {f"notebooks/{path.name}": path for path in notebooks()}
    assert len(named) == len(QUESTIONS)
    for title, file in named:
        assert f'"# {title}' in files[file].read_text(encoding="utf-8")
