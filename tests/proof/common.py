"""What every proof shares: rows on disk with the machine and command that made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import records

FOLDER = Path(__file__).parents[2] / "data" / "proofs"


def record(name: str, rows: records.Rows, command: str = "", **settings: Any) -> None:
    """Write the rows of a proof, with all that is needed to repeat it.

    *command* is what follows ``python -m tests.proof``, where not the name.
    """
    done = f"tests.proof {command or name}"
    records.write(FOLDER / f"{name}.json", "proof", done, rows, **settings)


def read(name: str) -> dict[str, Any] | None:
    """Return what the proof recorded, or None when it never ran."""
    return records.read(FOLDER / f"{name}.json")


def kept(name: str, key: str) -> dict[str, dict[str, Any]]:
    """Return the rows that the proof recorded, by what their column *key* says."""
    return {row[key]: row for row in (read(name) or {"rows": []})["rows"]}
