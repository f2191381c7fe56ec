"""What people say about torch.compile, and what decides it.

`data/claims.csv` has a row for each claim, with a verdict and what decides it;
`python -m tools.claims` makes the page `notebooks/claims.md` of it.  The tests follow
each pointer: a page has the claim or the section, an expression gives the value.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from pathlib import Path

from tools.commands import command

ROOT = Path(__file__).resolve().parents[1]
CLAIMS, PAGE = ROOT / "data" / "claims.csv", ROOT / "notebooks" / "claims.md"

VERDICTS = {
    "true": "It holds as it is said.",
    "partly": "It holds for a part, or under a condition that is not said.",
    "misleading": "Whoever believes it would expect or do the wrong thing.",
    "false": "It does not hold.",
    "outdated": "It held for an older version.",
    "unverifiable": "What is needed to check it is not given.",
}
DECIDED_BY = {
    "lesson": "a section of a lesson or reference page; each run compares its outputs",
    "arithmetic": "a calculation that the tests repeat",
    "code": "an expression that the tests evaluate, with what is raised as `error(f)`",
    "source": "a publication, with its date",
    "open": "nothing: what would be needed to decide it",
}


def rows() -> list[dict[str, str]]:
    """Return the rows of `data/claims.csv`."""
    return list(csv.DictReader(CLAIMS.read_text(encoding="utf-8").splitlines()))


def page(claims: list[dict[str, str]]) -> str:
    """Return the page for readers, in Markdown."""
    articles = list(dict.fromkeys(row["article"] for row in claims))
    counts, by = (Counter(row[what] for row in claims) for what in ("verdict", "by"))
    parts = [
        "# What people say about torch.compile, and what decides it",
        f"{len(claims)} claims from {len(articles)} articles on the web, collected in "
        "2026 and shortened here, each with a verdict and with what decides it. A "
        "verdict is about one sentence, and not about its article or its author.",
        _table(
            ["verdict", "claims", "what it means"],
            [[v, str(counts[v]), means] for v, means in VERDICTS.items()],
        ),
        _table(
            ["decided by", "claims", "what that is"],
            [[kind, str(by[kind]), means] for kind, means in DECIDED_BY.items()],
        ),
        "The articles, by the first three digits of a claim's number:",
        "\n".join(f"- {i:03}: *{name}*" for i, name in enumerate(articles)),
        "## The claims",
        _table(
            ["no.", "claim", "verdict", "why, and what decides it"],
            [_line(row) for row in claims],
        ),
        "*`python -m tools.claims` makes this of [data](../data/README.md#claimscsv).*",
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in rows)


def _line(row: dict[str, str]) -> list[str]:
    why = f"{_text(row['why'])}<br>({_decides(row)})"
    return [row["id"], _text(row["claim"]), f"**{row['verdict']}**", why]


def _text(words: str) -> str:
    """Return words as they are, whatever Markdown would make of their signs."""
    return re.sub(r"([\\_*<>|`\[\]])", r"\\\1", words)


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
        return f"[{key}]({link}): {_text(words)}"
    if row["by"] in ("arithmetic", "code"):
        expression, value = pointer.split(" → ")
        return f"`{expression}` gives `{value}`"
    if row["by"] == "source":
        return re.sub(r"(.*?),? (https://\S+?)(,.*)?$", r"[\1](\2)\3", pointer)
    return f"open; to decide it one needs {_text(pointer)}"


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    command("tools.claims", __doc__).parse_args(arguments)
    PAGE.write_text(page(rows()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
