"""Rows on disk, with the machine and the command that made them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from helpers.results import Machine, now, write_atomically

Rows = list[dict[str, Any]]


def write(file: Path, kind: str, command: str, rows: Rows, **settings: Any) -> None:
    """Write *rows* to *file*, with all that is needed to make them again.

    *kind* names what *file* holds, *command* is what follows ``python -m``.
    """
    whole = {
        kind: file.stem,
        "command": f"python -m {command}",
        "when": now(),
        "machine": dataclasses.asdict(Machine.here()),
        "settings": settings,
        "rows": rows,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def read(file: Path) -> dict[str, Any] | None:
    """Return what *file* holds, or None when it was never written."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def markdown(rows: Rows) -> str:
    """Return rows that share their keys as a Markdown table."""
    return table(rows[0], (row.values() for row in rows))


def table(headings: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """Return lines as a Markdown table."""
    names = [*headings]
    whole = [names, ["---"] * len(names), *lines]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in whole)


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def origin(kept: dict[str, Any]) -> str:
    """Return one line: where, when and with what the rows of a file were made."""
    m = kept["machine"]
    where = f"{m['gpu'] or m['cpu']}, {m['cores']} cores, torch {m['torch']}"
    return f"*{where}, {kept['when'][:10]}: `{kept['command']}`*"
