"""Every link of the README and the notebooks leads somewhere.  No network is used."""

import re
from functools import cache
from urllib.parse import unquote, urlsplit

import mistune
import pytest

from tests.refresh import ROOT, notebooks, read

BESIDE = sorted((ROOT / "notebooks").rglob("*.md"))
DATA = sorted((ROOT / "data").rglob("*.md"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("torch_checkup/*.md")]
PAGES += [*notebooks(), *BESIDE, *DATA]
_markdown = mistune.create_markdown(renderer=None, plugins=["table"])


def source(page):
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    cells = [c for c in read(page).cells if c.cell_type == "markdown"]
    return "\n\n".join(cell.source for cell in cells)


def tokens(nodes):
    """Yield Markdown tokens, and those inside of them."""
    for node in nodes:
        yield node
        yield from tokens(node.get("children", []))


def links(text):
    """Return the targets of all links and pictures, Markdown and HTML."""
    every = [*tokens(_markdown(text))]
    targets = [t["attrs"]["url"] for t in every if t["type"] in ("link", "image")]
    html = " ".join(t["raw"] for t in every if t["type"].endswith("html"))
    return targets + re.findall(r'\b(?:href|src)="([^"]*)"', html)


@cache
def anchors(page):
    """Return the names of a page's headings, as what shows it would link to them.

    GitHub makes them lower case, drops signs and numbers what comes twice;
    JupyterLab only turns spaces into hyphens.
    """
    headings = [t for t in tokens(_markdown(source(page))) if t["type"] == "heading"]
    titles = ["".join(t.get("raw", "") for t in tokens([h])) for h in headings]
    if page.suffix == ".ipynb":
        return {title.replace(" ", "-") for title in titles}
    names = []
    for title in titles:
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return set(names)


def broken(page, root=ROOT):
    """Return the links of a page that lead nowhere, or out of *root*."""
    bad = []
    for link in links(source(page)):
        parts = urlsplit(link)
        if parts.scheme in ("http", "https"):
            named = re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.hostname or "")
            bad += [] if named and " " not in link else [f"{link}: no host name"]
            continue
        if parts.scheme or link.startswith("/"):
            bad.append(f"{link}: neither relative nor http")
            continue
        path, heading = unquote(parts.path), unquote(parts.fragment)
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or not target.is_relative_to(root):
            bad.append(f"{link}: no such file in the course")
        elif heading and target.suffix in (".md", ".ipynb"):
            bad += [] if heading in anchors(target) else [f"{link}: no such heading"]
    return bad


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_links(page):
    assert broken(page) == []
