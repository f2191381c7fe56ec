"""How much there is to read: lines of Python, by folder and by module."""

from __future__ import annotations

from pathlib import Path

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


def files(folder: str) -> list[Path]:
    """Return the Python files of a folder; the package's own count by themselves."""
    pattern = "*.py" if folder == "helpers/" else "**/*.py"
    return sorted((ROOT / folder).glob(pattern))


def main() -> None:
    """Print each module of the package, and record the folders."""
    for path in sorted((ROOT / "helpers").rglob("*.py")):
        print(f"{lines(path):5}  {path.relative_to(ROOT)}")
    rows = []
    for folder, what in FOLDERS.items():
        counts = [lines(path) for path in files(folder)]
        row = {"folder": f"`{folder}`", "what": what}
        rows.append({**row, "files": len(counts), "lines": sum(counts)})
    record("lines", rows)
    print(table(rows))
