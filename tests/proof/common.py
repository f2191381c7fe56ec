"""What every proof shares: rows on disk with the machine and command that made them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from helpers.results import Machine, now, write_atomically

FOLDER = Path(__file__).parents[2] / "data" / "proofs"


def record(
    name: str, rows: list[dict[str, Any]], command: str = "", **settings: Any
) -> None:
    """Write the rows of a proof, with all that is needed to repeat it.

    *command* is what follows ``python -m tests.proof``, where not the name.
    """
    whole = {
        "proof": name,
        "command": f"python -m tests.proof {command or name}",
        "when": now(),
        "machine": dataclasses.asdict(Machine.here()),
        "settings": settings,
        "rows": rows,
    }
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_atomically(FOLDER / f"{name}.json", text)


def read(name: str) -> dict[str, Any] | None:
    """Return what the proof recorded, or None when it never ran."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return rows that share their keys as a Markdown table."""
    lines = [dict.fromkeys(rows[0], "---"), *rows]
    body = ["| " + " | ".join(map(_cell, row.values())) + " |" for row in lines]
    return "\n".join(["| " + " | ".join(rows[0]) + " |", *body])


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
