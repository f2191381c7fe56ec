"""Puts what the proofs recorded on one page: data/proofs/README.md."""

from __future__ import annotations

from typing import Any

from helpers.results import write_atomically
from tests.proof.broken import FAULTS
from tests.records import DATA, markdown, origin, read

INTRODUCTION = """\
# Can the checks fail?

Each table is written by the command below it. A command goes on where it stopped,
so rows may be of several runs; the machine and the date are those of the last.
"""
SECTIONS = {
    "faults": "Which cell notices a broken compiler?",
    "mutants": "Which tests notice a helper that lies?",
    "browser": "Do all cells run, widgets move and answers pass, in a browser?",
    "access": "Can everybody read and use the pages?",
    "checkups": "Does a checkup leave real models alone?",
}


def not_run(rows: list[dict[str, Any]]) -> list[str]:
    """Return the faults that have no row."""
    return [name for name in FAULTS if name not in {row["fault"] for row in rows}]


def page() -> str:
    """Return the whole page; a proof that never ran says which command runs it."""
    parts = [INTRODUCTION]
    for name, title in SECTIONS.items():
        kept = read(f"proofs/{name}")
        parts.append(f"## {title}\n")
        if kept is None:
            parts.append(f"*Not run yet: `python -m tests.proof {name}`.*\n")
            continue
        parts.append(f"{markdown(kept['rows'])}\n")
        if name == "faults" and (waiting := not_run(kept["rows"])):
            parts.append(f"Not run yet: {', '.join(waiting)}.\n")
        parts.append(f"{origin(kept)}\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    """Write the page."""
    write_atomically(DATA / "proofs" / "README.md", page())
