"""What people say about torch.compile, and what decides it.

`data/claims.csv` has a row for each claim, with a verdict and what decides it;
`python -m tools.claims` makes the page `notebooks/claims.md` of it.  The tests follow
each pointer: a page has the claim or the section, an expression gives the value.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

from jinja2 import Template

from tools.commands import command

ROOT = Path(__file__).resolve().parents[1]
CLAIMS, PAGE = ROOT / "data" / "claims.csv", ROOT / "notebooks" / "claims.md"


def rows() -> list[dict[str, str]]:
    """Return the rows of `data/claims.csv`."""
    return list(csv.DictReader(CLAIMS.read_text(encoding="utf-8").splitlines()))


def page(claims: list[dict[str, str]]) -> str:
    """Return the page for readers, in Markdown."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    articles = list(dict.fromkeys(row["article"] for row in claims))
    return Template(text, keep_trailing_newline=True).render(
        articles=articles, claims=claims, words=_words, decides=_decides
    )


def _words(text: str) -> str:
    """Return a text as it is, whatever Markdown would make of its signs."""
    return re.sub(r"([\\_*<>|`\[\]])", r"\\\1", text)


def lesson(key: str) -> Path | None:
    """Return the notebook of a lesson, by number, or of a reference page."""
    name = f"{key}_*.ipynb" if key.isdigit() else f"reference/{key}.ipynb"
    return next(PAGE.parent.glob(name), None)


def _decides(row: dict[str, str]) -> str:
    pointer = row["pointer"]
    if row["by"] == "lesson":
        key, words = pointer.split(": ", 1)
        link = lesson(key).relative_to(PAGE.parent).as_posix()
        if f'"## {words}' in (PAGE.parent / link).read_text("utf-8"):  # a section
            link += "#" + words.replace(" ", "-")
        return f"[{key}]({link}): {_words(words)}"
    if row["by"] in ("arithmetic", "code"):
        expression, value = pointer.split(" → ")
        return f"`{expression}` gives `{value}`"
    if row["by"] == "source":
        return re.sub(r"(.*?),? (https://\S+?)(,.*)?$", r"[\1](\2)\3", pointer)
    return f"open; to decide it one needs {_words(pointer)}"


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    command("tools.claims", __doc__).parse_args(arguments)
    PAGE.write_text(page(rows()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
