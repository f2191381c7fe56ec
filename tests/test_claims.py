"""The verdicts on common claims: every pointer is followed, and a bad one noticed."""

import ast
import functools
import inspect
import math
import re
from collections import Counter

import pytest
import torch
from torch import nn

from tests.form import Lesson
from tests.refresh import not_the_reference, read
from tools.claims import PAGE, lesson, page, rows

ROWS = rows()
OTHER = not_the_reference()


# --- what the expressions use --------------------------------------------------------


class Branch(nn.Module):
    """A model with a branch on the values of its input."""

    def forward(self, x):
        return x.sin() if x.sum() > 0 else x.cos()


def error(act):
    try:
        act()
    except Exception as raised:
        return type(raised).__name__
    return None


NAMES = {"torch": torch, "nn": nn, "inspect": inspect}
NAMES |= {"Branch": Branch, "error": error}


# --- following a pointer -------------------------------------------------------------


@functools.cache
def said(key):
    """Return the claims of a page, and the titles of its sections."""
    path = lesson(key)
    if path is None:
        return set()
    page = Lesson(read(path), path)
    texts = [call.args[0] for call in page.calls("claim")]
    claims = {text.value for text in texts if isinstance(text, ast.Constant)}
    return claims | {title for level, title in page.headings if level == 2}


def same(one, other):
    """Compare values, and floats to as many digits as the page shows."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(other, float) and not isinstance(one, bool):
        return math.isclose(one, other, rel_tol=0.005)
    return type(one) is type(other) and one == other


def problem(row):
    """Follow the pointer of a row; return what is wrong with it."""
    by, pointer = row["by"], row["pointer"]
    if by == "lesson":
        key, _, text = pointer.partition(": ")
        return None if text in said(key) else f"{row['id']}: not there: {pointer}"
    if by in ("arithmetic", "code"):
        expression, arrow, value = pointer.partition(" → ")
        if not arrow:
            return "no value to compare with"
        got = eval(expression, dict(NAMES))
        return None if same(got, ast.literal_eval(value)) else f"it gives {got!r}"
    if by == "source":
        dated = re.search(r"\b20\d\d-(0\d|1[0-2])\b", pointer)
        linked = re.search(r"https://[\w.-]+\.\w+/\S*", pointer)
        return None if dated and linked else "a source has a date and an address"
    return None if pointer and row["verdict"] == "unverifiable" else "it is decided"


def test_each_claim_and_section_is_there():
    assert [
        wrong for row in ROWS if row["by"] == "lesson" if (wrong := problem(row))
    ] == []


@pytest.mark.weekly
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_each_pointer_is_followed(row):
    if row["by"] == "code" and OTHER:
        pytest.skip(OTHER)
    assert problem(row) is None


# --- the rows and the page -----------------------------------------------------------


def test_every_claim_has_one_verdict():
    ids = [row["id"] for row in ROWS]  # the article's number and the claim's
    assert ids == sorted({*ids})
    articles = {(row["id"][:3], row["article"]) for row in ROWS}
    assert len(articles) == len({article for _, article in articles})
    told = re.findall(r"^\| ([a-z]+) \| (\d+) \|", PAGE.read_text("utf-8"), re.M)
    counted = Counter(row[of] for row in ROWS for of in ("verdict", "by"))
    assert {name: int(n) for name, n in told} == counted
    assert all(row["claim"] and row["kind"] and row["why"] for row in ROWS)


def test_the_page_is_that_of_the_data():
    assert PAGE.read_text("utf-8") == page(ROWS), "run python -m tools.claims"
