"""Puts what the benchmarks recorded into the pages that show it, word for word."""

from __future__ import annotations

import os
from pathlib import Path

from helpers.results import write_atomically
from tests.records import DATA, markdown, origin, read, renewed

ROOT, FOLDER = DATA.parent, DATA / "benchmarks"
PAGES = {  # which page shows which benchmarks
    ROOT / "README.md": ("picture",),
    FOLDER / "README.md": ("aa", "ratio", "dumps"),
    ROOT / "torch_checkup" / "README.md": ("checkup",),
}
NAMES = tuple(name for names in PAGES.values() for name in names)
PICTURES = {"picture": "three_fates.png", "checkup": "checkup.png"}


def section(name: str, page: Path) -> str:
    """Return the Markdown between the marks of one benchmark, for links from *page*."""
    kept = read(f"benchmarks/{name}")
    if kept is None:
        return f"*Not measured yet: `python -m tests.benchmarks {name}`.*"
    if name in PICTURES:
        file = Path(os.path.relpath(FOLDER / PICTURES[name], page.parent)).as_posix()
        return f"![{kept['settings']['alt']}]({file})\n\n{origin(kept)}"
    return f"{markdown(kept['rows'])}\n\n{origin(kept)}"


def render(page: Path, text: str) -> str:
    """Return *text* with what stands between each pair of marks made anew."""
    for name in PAGES[page]:
        text = renewed(text, name, section(name, page))
    return text


def main() -> None:
    """Write what is recorded into each page."""
    for page in PAGES:
        write_atomically(page, render(page, page.read_text(encoding="utf-8")))
