"""What the search needs to rank pages: where a name is taught, and how often it stands.

Sphinx's index says only whether a page has a word.  Two tables are put before it: the
places that coverage, cheat sheet, glossary and messages name for a term, and counts of
words.  `search.js`, which Sphinx puts into its search, makes an order of both.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from docutils.nodes import make_id
from sphinx.search.en import SearchEnglish

_FEW = 3  # times: a word that stands on a page less often is not what it is about
_LANGUAGE = SearchEnglish({})
Places = dict[str, dict[str, str]]  # stemmed words -> page -> place on it, or ""


def add(site: Path, source: Path) -> None:
    """Put both tables before the index of a site that was built from *source*."""
    tables = {"taught": taught(source), "counts": counts(site)}
    text = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
    index = site / "searchindex.js"
    before = f"Object.assign(Scorer,{text});\n"
    index.write_text(before + index.read_text("utf-8"), "utf-8")


def stems(text: str) -> list[str]:
    """Return the words of a text as Sphinx's search has them."""
    return [_LANGUAGE.stem(word) for word in _LANGUAGE.split(text.lower())]


def counts(site: Path) -> dict[str, dict[str, int]]:
    """Return for each word how often it stands on which page, where that is often."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for page in site.rglob("*.html"):
        text = re.sub(r"(?s)^.*?<article|</article>.*$", "", page.read_text("utf-8"))
        words = stems(html.unescape(re.sub(r"<[^>]+>", " ", text)))
        name = page.relative_to(site).with_suffix("").as_posix()
        for word, times in Counter(words).items():
            if times >= _FEW and re.search(r"[^\W\d]{3}", word):
                found[word][name] = times
    return found


def taught(source: Path) -> Places:
    """Return the pages of each name and term, and the section where that is known.

    The first page of a term is the one that fits best.
    """
    found: Places = defaultdict(dict)
    for term, where in (*_covered(source), *_terms(source), *_recipes(source)):
        _put(found[" ".join(stems(term))], where)
    for word, where in _messages(source):
        if word not in found:
            _put(found[word], where)
    return found


def _put(pages: dict[str, str], where: str) -> None:
    """Add the pages, and places on them, to which Markdown links."""
    for page, place in re.findall(r"\(([\w/]+)\.(?:ipynb|md)(#[^)]+)?\)", where):
        if not pages.get(page):  # a place is more than a page
            pages[page] = place


def _covered(source: Path) -> Iterator[tuple[str, str]]:
    """Yield the names that the table of concepts has, and the sections it links."""
    for concept, _, where in _rows((source / "coverage.md").read_text("utf-8")):
        for name in re.findall(r"`([^`]+)`", concept):
            yield name, where


def _recipes(source: Path) -> Iterator[tuple[str, str]]:
    """Yield the names in the cheat sheet's code, its section, and what it links."""
    text = (source / "cheat_sheet.md").read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        here = f"(cheat_sheet.md#{make_id(section.partition(chr(10))[0])})"
        for _, code, where in _rows(section):
            for name in re.findall(r"\w*[^\W\d_]_\w+|fullgraph|dynamic", code):
                yield name, f"{where} {here}"


def _terms(source: Path) -> Iterator[tuple[str, str]]:
    text = (source / "glossary.md").read_text("utf-8")
    yield from re.findall(r"^(\S.*)\n  .* Taught in (.+)\.$", text, re.M)


def _messages(source: Path) -> Iterator[tuple[str, str]]:
    """Yield the words that a single message has, with its lesson and its place."""
    text = (source / "messages.md").read_text("utf-8")
    entries = re.findall(
        r"^## (.+)\n\n((?:    .+\n)+)(?s:.*?)^(Lesson .+)$", text, re.M
    )
    places: dict[str, list[str]] = defaultdict(list)
    for title, seen, lesson in entries:
        for word in {*stems(f"{title} {seen}")}:
            places[word].append(f"{lesson} (messages.md#{make_id(title)})")
    for word, wheres in places.items():
        if len(wheres) == 1 and len(word) > 4:
            yield word, wheres[0]


def _rows(markdown: str) -> list[list[str]]:
    """Return the rows of three cells that the tables of a page have."""
    lines = re.findall(r"^\| (.+) \|$", markdown, re.M)
    rows = [re.split(r"\s*(?<!\\)\|\s*", line) for line in lines]
    return [row for row in rows if len(row) == 3 and "---" not in row[0]]
