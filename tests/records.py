"""Rows on disk, with the machine and the command that made them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from helpers.results import Machine, now, write_atomically

DATA = Path(__file__).resolve().parents[1] / "data"
Rows = list[dict[str, Any]]


def write(name: str, rows: Rows, command: str = "", **settings: Any) -> None:
    """Write *rows* to ``data/NAME.json``, with all that is needed to make them again.

    *command* is what follows ``python -m``, where the name ``proofs/faults`` does not
    say it.
    """
    file = DATA / f"{name}.json"
    program = {"proofs": "tests.proof"}.get(file.parent.name, "tests.benchmarks")
    whole = {
        file.parent.name.removesuffix("s"): file.stem,
        "command": f"python -m {command or f'{program} {file.stem}'}",
        "when": now(),
        "machine": dataclasses.asdict(Machine.here()),
        "settings": settings,
        "rows": rows,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def read(name: str) -> dict[str, Any] | None:
    """Return what was written under *name*, or None when nothing was."""
    file = DATA / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def kept(name: str, key: str) -> dict[str, dict[str, Any]]:
    """Return the rows under *name*, by what their column *key* says."""
    return {row[key]: row for row in (read(name) or {"rows": []})["rows"]}


def put(
    name: str, key: str, row: dict[str, Any], order: Iterable[str], command: str = ""
) -> None:
    """Write a row in place of the one before; what is not in *order* is dropped.

    *key* is the column that names a row, and *order* the order of such names.
    """
    rows = kept(name, key) | {row[key]: row}
    write(name, [rows[each] for each in order if each in rows], command)


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


def renewed(page: str, mark: str, text: str) -> str:
    """Return *page* with *text* between the two comments that name *mark*."""
    head, rest = page.split(f"<!-- {mark} -->\n", 1)
    tail = rest.split(f"<!-- /{mark} -->", 1)[1]
    return f"{head}<!-- {mark} -->\n{text}\n<!-- /{mark} -->{tail}"


def origin(kept: dict[str, Any]) -> str:
    """Return one line: where, when and with what the rows of a file were made."""
    m = kept["machine"]
    where = f"{m['gpu'] or m['cpu']}, {m['cores']} cores, torch {m['torch']}"
    return f"*{where}, {kept['when'][:10]}: `{kept['command']}`*"
