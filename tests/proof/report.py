"""Puts what proofs and benchmarks recorded into the pages that show it, word for word.

python -m tests.proof report
"""

from __future__ import annotations

import os
from pathlib import Path

from helpers.results import write_atomically
from tests.records import DATA, markdown, origin, read, renewed

ROOT, BENCHMARKS, PROOFS = DATA.parent, DATA / "benchmarks", DATA / "proofs"
PAGES = {  # which page shows which records
    ROOT / "README.md": ("benchmarks/picture",),
    BENCHMARKS / "README.md": ("benchmarks/aa", "benchmarks/ratio", "benchmarks/dumps"),
    ROOT / "torch_checkup" / "README.md": ("benchmarks/checkup",),
    PROOFS / "README.md": tuple(
        f"proofs/{name}"
        for name in ("faults", "mutants", "browser", "access", "checkups")
    ),
}
PICTURES = {"picture": "three_fates.png", "checkup": "checkup.png"}


def section(record: str, page: Path) -> str:
    """Return the Markdown between the marks of a record, for links from *page*."""
    kept, (folder, name) = read(record), record.split("/")
    if kept is None:
        program = {"proofs": "tests.proof"}.get(folder, "tests.benchmarks")
        return f"*Not run yet: `python -m {program} {name}`.*"
    if name in PICTURES:
        file = os.path.relpath(BENCHMARKS / PICTURES[name], page.parent)
        alt = kept["settings"]["alt"]
        return f"![{alt}]({Path(file).as_posix()})\n\n{origin(kept)}"
    return f"{markdown(kept['rows'])}\n\n{origin(kept)}"


def render(page: Path, text: str) -> str:
    """Return *text* with what stands between each pair of marks made anew."""
    for record in PAGES[page]:
        text = renewed(text, record.split("/")[1], section(record, page))
    return text


def main(arguments: list[str] | None = None) -> None:
    """Write what is recorded into each page."""
    for page in PAGES:
        write_atomically(page, render(page, page.read_text("utf-8")))
