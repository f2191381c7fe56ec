"""Every link of the README and the notebooks leads somewhere.  No network is used."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mistune
import pytest

from tests.refresh import ROOT, notebooks, read

PAGES = [*ROOT.glob("*.md"), *notebooks()]
_markdown = mistune.create_markdown(renderer=None, plugins=["table"])


def _source(page: Path) -> str:
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    cells = [c for c in read(page).cells if c.cell_type == "markdown"]
    return "\n\n".join(cell.source for cell in cells)


def _tokens(text: str) -> list[dict]:
    """Return the Markdown tokens of *text*, nested ones included."""
    flat, left = [], list(_markdown(text))
    while left:
        token = left.pop(0)
        flat.append(token)
        left = [*token.get("children", []), *left]
    return flat


def links(text: str) -> list[str]:
    """Return the targets of all links and pictures, Markdown and HTML."""
    tokens = _tokens(text)
    found = [t["attrs"]["url"] for t in tokens if t["type"] in ("link", "image")]
    html = " ".join(t["raw"] for t in tokens if t["type"].endswith("html"))
    return found + re.findall(r'\b(?:href|src)="([^"]*)"', html)


def _words(token: dict) -> str:
    inner = "".join(_words(child) for child in token.get("children", []))
    return token.get("raw", "") + inner


def anchors(page: Path) -> set[str]:
    """Return the names of a page's headings, as what shows it would link to them.

    GitHub makes them lower case and drops signs; JupyterLab only turns spaces into
    hyphens.
    """
    titles = [_words(t) for t in _tokens(_source(page)) if t["type"] == "heading"]
    if page.suffix == ".ipynb":
        return {title.replace(" ", "-") for title in titles}
    names: dict[str, int] = {}
    for title in titles:
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        names[name if name not in names else f"{name}-{names[name]}"] = 0
        names[name] += 1
    return set(names)


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere, with the reason."""
    bad = []
    for link in links(_source(page)):
        parts = urlsplit(link)
        if parts.scheme in ("http", "https"):
            if not re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.hostname or ""):
                bad.append(f"{link}: no host name")
            elif " " in link:
                bad.append(f"{link}: has a space")
        elif parts.scheme or link.startswith("/"):
            bad.append(f"{link}: neither relative nor http")
        else:
            bad += _unresolved(page, unquote(parts.path), unquote(parts.fragment))
    return bad


def _unresolved(page: Path, path: str, fragment: str) -> list[str]:
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(page.parents[-1]):
        return [f"{path}: no such file"]
    is_page = target.suffix in (".md", ".ipynb")
    if fragment and is_page and fragment not in anchors(target):
        return [f"{path}#{fragment}: no such heading"]
    return []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_stay_in_the_course(page: Path) -> None:
    for link in links(_source(page)):
        path = unquote(urlsplit(link).path)
        if not urlsplit(link).scheme and path:
            assert (page.parent / path).resolve().is_relative_to(ROOT), link


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `b` C, d\n\n## Twice\n\n## Twice\n")
    good = "[a](other.md) [b](other.md#a-b-c-d) [c](other.md#twice-1) [d](#here)"
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\n{good}\n\n`[e](no.md)`\n\n```\n[f](no.md)\n```\n")
    assert broken(page) == []
    page.write_text(
        "# Here\n\n[a](no.md) ![b](no.png) [c](other.md#no) [d](#no) [e](http://x) "
        '[f](ftp://a.b) [g](/etc) <a href="no.html">h</a>\n\n'
        '| a |\n|---|\n| [i](table.md) |\n\n<img src="no.svg">\n'
    )
    assert len(broken(page)) == 10
