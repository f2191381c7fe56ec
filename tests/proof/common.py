"""What every proof shares: rows on disk with the machine and command that made them."""

from __future__ import annotations

from collections.abc import Iterable
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


def put(
    name: str,
    key: str,
    row: dict[str, Any],
    order: Iterable[str],
    **settings: Any,
) -> None:
    """Record a row in place of the one before; what is not in *order* is dropped.

    *key* is the column that names a row, and *order* the order of such names.
    """
    rows = kept(name, key) | {row[key]: row}
    ordered = [rows[each] for each in order if each in rows]
    record(name, ordered, **settings)


def kept(name: str, key: str) -> dict[str, dict[str, Any]]:
    """Return the rows that the proof recorded, by what their column *key* says."""
    return {row[key]: row for row in (read(name) or {"rows": []})["rows"]}
