"""Verdicts on a page: a sign, a word and a colour, so that none stands alone.

In a live notebook a verdict is a box.  Elsewhere it is printed as text: notebooks are
stored so, strict comparison reads it, and the site makes it the same box again.
"""

from __future__ import annotations

import html
from enum import Enum

from helpers.text import watched

_GREEN, _RED, _AMBER, _GREY = "#1a7f37", "#cf222e", "#956300", "#656d76"


class Sign(Enum):
    """A sign, its word, and the colour behind both: white on it can be read."""

    HOLDS = "✓", "holds", _GREEN
    FAILS = "✗", "does not hold", _RED
    RIGHT = "✓", "right", _GREEN
    WRONG = "✗", "wrong", _RED
    PASSED = "✓", "passed", _GREEN
    NOT_YET = "…", "not yet", _AMBER
    OPEN = "○", "open", _GREY  # no guess, no answer
    ANSWER = "→", "answer", _GREY


def verdict(sign: Sign, words: str, printed: str, below: str = "") -> None:
    """Print *printed*; where somebody watches, show a box with *words* instead.

    *below* is HTML that ends the box.
    """
    if not watched():
        print(printed)
        return
    from IPython.display import display

    display({"text/plain": printed, "text/html": box(sign, words, below)}, raw=True)


def box(sign: Sign, words: str, below: str = "") -> str:
    """Return a box as HTML, for a light page and a dark one.

    The words keep the page's own ink, on a tint so thin that they stay readable.
    """
    mark, word, colour = sign.value
    label = f"background:{colour};color:#fff;border-radius:3px;padding:0 .45em"
    style = f"border-left:4px solid {colour};background:{colour}1a;margin:.15em 0"
    return (
        f'<div style="{style};padding:.2em .6em;white-space:pre-wrap;'
        'overflow-wrap:anywhere;font-family:system-ui,sans-serif;line-height:1.5">'
        f'<b style="{label}">{mark} {word}</b> {html.escape(words)}{below}</div>'
    )


def folds(titles: list[str], texts: list[str]) -> str:
    """Return texts as HTML, each behind a click, and in the fold of the one before."""
    inner = ""
    for title, text in zip(reversed(titles), reversed(texts), strict=True):
        summary = f'<summary style="cursor:pointer">{html.escape(title)}</summary>'
        inner = f"<details>{summary}{html.escape(text)}{inner}</details>"
    return inner
