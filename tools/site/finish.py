"""What a page of Sphinx, myst-nb and Furo still lacks: marks, names and levels."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

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


def texts(site: Path) -> str:
    """Return a script with the sections of each page: what the search quotes."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        sections = [*_sections(path.read_text("utf-8"))]
        if sections and path.parent.name != "solutions":
            found[path.relative_to(site).with_suffix("").as_posix()] = sections
    return f"const TEXTS = {json.dumps(found, ensure_ascii=False)};\n"


_INLINE = re.compile(r"</?(?:span|code|a|em|strong|b|i)\b[^>]*>")  # within a word
_TAG = re.compile(r"<[^>]+>")


def _sections(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the title and the words of each section of a page."""
    article = page.partition("<article")[2].partition("</article>")[0]
    unread = re.compile(r"<(svg|summary|style|math)\b.*?</\1>", re.DOTALL)
    for part in article.split('<section id="')[1:]:
        name, _, inside = part.partition('">')
        title, _, rest = inside.partition('<a class="headerlink"')
        rest = unread.sub(" ", rest.partition("</a>")[2])
        title, words = (
            " ".join(html.unescape(_TAG.sub(" ", _INLINE.sub("", text))).split())
            for text in (title, rest)
        )
        yield name, title, words
