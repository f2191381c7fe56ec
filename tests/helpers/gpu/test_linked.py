"""A line of the program, followed down to the machine code and back."""

import json
import re
import subprocess
from base64 import b64decode
from unittest import mock

import pytest
import torch
from packaging.version import Version

from helpers import dump_triton
from helpers.errors import InputError
from helpers.gpu import linked
from helpers.gpu.compile import compile_kernel
from helpers.gpu.gpus import find
from helpers.results import version_of
from tests.kinds import dumped, randn


def tripled(x):
    y = x + 0.75
    y = y * 3
    return torch.softmax(y.abs(), -1)


# Triton before 3.9 merges two lines that do the same, and keeps the place of one.
MERGED = 0 if Version(version_of("triton") or "0") >= Version("3.9") else 2
FIRST = tripled.__code__.co_firstlineno
# What one line becomes, and no other one: in each column, floats as their bits.
SUM = rf"{FIRST + 1}: |aten\.add|\+|arith\.addf|arith\.addf|fadd .*7\.5|0f3F40|0\.75 "
PRODUCT = rf"{FIRST + 2}: |aten\.mul|\*|arith\.mulf|arith\.mulf|fmul .*3\.0|0f4040|FMUL"


@pytest.fixture(scope="module")
def dump():
    return dump_triton(tripled, randn(16, 1000))


@pytest.fixture(scope="module")
def page(dump):
    return dump.page()


def belonging(page, words):
    """Return what belongs to the one line of Triton with *words*, by column."""
    columns = page.kernels[0].columns
    [lines] = [lines for text, lines in columns["Triton"] if re.search(words, text)]
    return {
        title: "\n".join(text for text, own in rows if own & lines)
        for title, rows in columns.items()
    }


@pytest.mark.parametrize(
    ("line", "mine", "other"),
    [(r"= tmp0 \+ tmp1", SUM, PRODUCT), (r"= tmp2 \* tmp3", PRODUCT, SUM)],
)
def test_a_line_leads_to_its_code_and_to_no_other(page, line, mine, other):
    found = belonging(page, line)
    for title, own, foreign in zip(
        found, mine.split("|"), other.split("|"), strict=True
    ):
        assert re.search(own, found[title]), title
        assert not re.search(foreign, found[title]), title


def test_every_line_that_makes_code_has_its_ptx(page, dump):
    columns = page.kernels[0].columns
    code = re.compile(r"tt\.(load|store|reduce|extern)|arith\.(add|sub|mul|div)f")
    made = [lines for text, lines in columns["TTIR"] if code.search(text)]
    assert len(made) > 8
    for title in ("TTGIR", "LLVM IR", "PTX", "SASS"):
        known = frozenset().union(*(lines for _, lines in columns[title]))
        lost = frozenset().union(*made) - known
        assert len(lost) <= MERGED, title
    load, store = belonging(page, r"tl\.load"), belonging(page, r"tl\.store")
    assert "LDG" in load["SASS"] and "STG" not in load["SASS"]
    assert "st.global" in store["PTX"] and "torch.softmax" in store["Python"]
    marked = compile_kernel(dump.kernels[0].generated, find("h100"), lines=True)
    assert marked.sass == dump.kernels[0].sass and ".loc" not in dump.kernels[0].ptx


def test_the_page_needs_no_network_and_can_be_used_by_keys(dump, page, tmp_path):
    dump.page(tmp_path / "kernels.html")
    assert (tmp_path / "kernels.html").read_text("utf-8") == page.html
    assert len(page.html) < 2e6 and not re.search(r"https?:|src=|<link", page.html)
    for part in ('role="tablist"', 'role: "listbox"', 'role="status"', "ArrowDown"):
        assert part in page.html
    [tab] = json.loads(re.search(r'id="data">(.*?)</script>', page.html, re.S)[1])
    assert [*tab["columns"]] == [*page.kernels[0].columns]
    assert f"{dump.kernels[0].registers} registers a thread" in tab["needs"]
    assert "% occupancy" in tab["needs"] and "memory decides" in tab["needs"]
    shown = re.search(r'src="data:text/html;base64,([^"]*)"', page._repr_html_())
    assert b64decode(shown[1]).decode() == page.html


def test_a_line_that_is_not_there_has_no_way(page):
    with pytest.raises(InputError, match="'no such'"):
        page.way("no such")


def test_what_has_no_stages_says_so(dump):
    lost = subprocess.CalledProcessError(1, "nvdisasm")
    with mock.patch.object(linked, "read_by", side_effect=lost):
        [(text, lines)] = dump.page().kernels[0].columns["SASS"]
    assert "nvdisasm" in text and not lines
    own = dumped("your own Triton kernel").page().kernels
    assert any("add_one" in line for line, _ in own[1].columns["Python"])
    assert "No kernel was generated" in dumped("no tensor operation").page().html


def test_two_dumps_are_compared(dump):
    assert str(dump.diff(dump)) == "their Triton code is the same"
    none = dump.diff(dumped("no tensor operation"))
    assert ("0", "kind", "persistent reduction", "none") in none.table().rows
