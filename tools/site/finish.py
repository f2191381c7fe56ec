"""What a page of Sphinx, myst-nb and Furo still lacks: marks, names and levels."""

from __future__ import annotations

import re

from helpers.text import numbers_marked

# What a screen reader is told, where Sphinx, myst-nb and Furo leave something out.
_MORE = {
    '<p class="caption" role="heading"': 'aria-level="2"',
    '<aside class="sidebar-drawer"': 'aria-label="Course"',
    '<aside class="toc-drawer"': 'aria-label="On this page"',
}


def finished(page: str) -> str:
    """Return a page whose outputs have marks around measured numbers alone.

    A sentence that says what the marks are keeps its own.
    """
    page = page.replace('<summary aria-label="Toggle hidden content">', "<summary>")
    for tag, more in _MORE.items():
        page = page.replace(f"{tag}>", f"{tag} {more}>")
    outputs = re.compile(r"<pre\b.*?</pre>", re.DOTALL)
    return outputs.sub(lambda output: numbers_marked(output[0]), page)
