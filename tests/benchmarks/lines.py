"""How much there is to read: lines of Python, by folder and by module."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path
from typing import Any

from tests.benchmarks.common import record, table
from tests.refresh import ROOT

FOLDERS = {
    "helpers/": "the package, without what is below",
    "helpers/gpu/": "GPU code without a GPU",
    "helpers/own_model/": "a model of the reader's own: checkup, first calls, training",
    "tools/": "opens and publishes the lessons, serves a room, records on a GPU",
    "notebooks/course/": "what the lessons do beside the page",
    "notebooks/exercises/": "what the exercises check",
    "notebooks/solutions/": "the answers",
    "tests/": "everything that must be true",
}


def lines(path: Path) -> int:
    """Return the lines of a file, as ``wc -l`` counts them."""
    return path.read_text(encoding="utf-8").count("\n")


def code(path: Path) -> int:
    """Return the lines that hold code: no comments, docstrings or empty lines."""
    held: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING}
    skipped |= {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    starts = True  # of a statement: a string that is one is a docstring
    source = io.BytesIO(path.read_bytes())
    for token in tokenize.tokenize(source.readline):
        if token.type in skipped:
            starts |= token.type == tokenize.NEWLINE
        elif not (starts and token.type == tokenize.STRING):
            held |= {*range(token.start[0], token.end[0] + 1)}
            starts = False
    return len(held)


def files(folder: str) -> list[Path]:
    """Return the Python files of a folder; the package's own count by themselves."""
    top = ROOT / folder
    found = top.glob("*.py") if folder == "helpers/" else top.rglob("*.py")
    return sorted(found)


def main() -> None:
    """Print each module of the package, and record the folders."""
    for path in sorted((ROOT / "helpers").rglob("*.py")):
        print(f"{lines(path):5}  {path.relative_to(ROOT)}")
    rows: list[dict[str, Any]] = []
    for folder, what in FOLDERS.items():
        found = files(folder)
        counts = sum(map(lines, found)), sum(map(code, found))
        rows.append(
            {
                "folder": f"`{folder}`",
                "what": what,
                "files": len(found),
                "lines": counts[0],
                "of code": counts[1],
            }
        )
    record("lines", rows)
    print(table(rows))
