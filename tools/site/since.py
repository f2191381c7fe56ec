"""The page "what works since when": a row for each program, a column for each torch."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from tools.site import TEMPLATES

BREAKS = "https://meta-pytorch.github.io/compile-graph-break-site/gb"
DECIDED = ("one graph", "works", "a break", "no graph")
"""Verdicts of which the rest of a cell counts too: elsewhere it is a message."""


def page(file: Path, titles: dict[str, str]) -> str:
    """Return the page of a table that `tests.proof since` wrote to *file*.

    *titles* are those of lessons, by the number at the beginning of a link.
    """
    kept = json.loads(file.read_text("utf-8"))
    rows = [{**row, **_shown(row, titles)} for row in kept["rows"]]
    values = {"rows": rows, "machine": kept["machine"], "breaks": with_pages}
    return TEMPLATES.get_template("since.md").render(kept["settings"], **values)


def _shown(row: dict[str, Any], titles: dict[str, str]) -> dict[str, Any]:
    """Return what the page shows of a row besides: its code, link and difference."""
    link, name = row["link"], row["link"].replace("reference/", "Reference: ")
    is_report = link.startswith("https:")
    title = "what was reported" if is_report else titles.get(link[:2], name)
    code = highlight(row["program"], PythonLexer(), HtmlFormatter(nowrap=True))
    more = {"title": title, "link": link if is_report else f"{link}.html"}
    return {**more, "html": code, "differs": differs(row["cells"])}


def differs(cells: dict[str, list[str]]) -> bool:
    """Return whether versions differ in more than the words of a message."""
    return len({(v, says if v in DECIDED else "") for v, says in cells.values()}) > 1


def with_pages(says: str) -> str:
    """Return what a cell says, each number of a break a link to torch's page on it."""
    link = rf'<a href="{BREAKS}/gb\1.html">\g<0></a>'
    return re.sub(r"GB(\d+)", link, html.escape(says))
