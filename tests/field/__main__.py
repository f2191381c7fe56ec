"""Run the field corpus: the check-up beside torch's own tools, on the same programs.

    python -m tests.field                   all programs, into data/proofs/field.json
    python -m tests.field "a counter in the model"
    python -m tests.field --table           write the table of the README anew

tlparse is asked where its command is installed.  A program that was run is kept: what
is interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any

import torch

from tests.field.corpus import ASKED, Case, cases, judged, judged_by_words
from tests.refresh import ROOT
from torch_checkup import checkup
from torch_checkup.helpers.results import write_atomically

KEPT = ROOT / "data" / "proofs" / "field.json"
README = ROOT / "torch_checkup" / "README.md"
MARKS = "<!-- field -->", "<!-- /field -->"
TOOLS = {
    "torch-checkup": "`torch-checkup`",
    "explain": "`torch._dynamo.explain`",
    "logs": "`TORCH_LOGS=graph_breaks,recompiles`",
    "tlparse": "tlparse",
}
_TIMEOUT = 300  # seconds for one tool and one program


def run(case: Case) -> dict[str, Any]:
    """Return what each tool made of a program."""
    with tempfile.TemporaryDirectory(prefix="field-") as place:
        program = Path(place) / "program.py"
        program.write_text(case.code)
        found = checkup(f"{program}:make", only=ASKED, train=case.train)
        told = {"torch-checkup": judged(case, found)}
        text = _said("explain", program)
        told["explain"] = judged_by_words(case, text, "Graph break:")
        text = _said("calls", program, TORCH_LOGS="graph_breaks,recompiles")
        told["logs"] = judged_by_words(case, text, "Graph break in user|Recompiling")
        if which("tlparse"):
            _said("calls", program, TORCH_TRACE=f"{place}/trace")
            text = _parsed(Path(place))
            told["tlparse"] = judged_by_words(case, text, "graph break|recompile")
    verdicts = {part.name: part.verdict for part in found.parts}
    tools = {name: asdict(one) for name, one in told.items()}
    return {"area": case.area, "verdicts": verdicts, "tools": tools}


def _said(what: str, program: Path, **env: str) -> str:
    command = [sys.executable, "-m", "tests.field.rivals", what, str(program)]
    how = {"capture_output": True, "text": True, "timeout": _TIMEOUT, "cwd": ROOT}
    done = subprocess.run(command, env={**os.environ, **env}, **how)
    return done.stdout + done.stderr


def _parsed(place: Path) -> str:
    """Return the text of the pages that tlparse makes of a trace."""
    [*logs] = (place / "trace").glob("*.log")
    out = place / "pages"
    command = ["tlparse", *map(str, logs[:1]), "--no-browser", "-o", str(out)]
    subprocess.run(command, capture_output=True, timeout=_TIMEOUT)
    pages = [*out.rglob("*.html"), *out.rglob("*.json")]
    return "\n".join(page.read_text(errors="replace") for page in pages)


def table(rows: dict[str, Any]) -> str:
    """Return the table of *rows*: how many programs each tool judged rightly."""
    lines = [
        "| tool | verdict | cause | line |",
        "|---|---|---|---|",
    ]
    for tool, words in TOOLS.items():
        told = [row["tools"][tool] for row in rows.values() if tool in row["tools"]]
        if not told:
            continue
        asked = [one["line"] for one in told if one["line"] is not None]
        counts = [
            f"{sum(one['verdict'] for one in told)} of {len(told)}",
            f"{sum(one['verdict'] and one['cause'] for one in told)} of {len(told)}",
            f"{sum(asked)} of {len(asked)}",
        ]
        lines.append(f"| {words} | {' | '.join(counts)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the programs that are named, or all that were not run; return 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.field")
    parser.add_argument("names", nargs="*", help="programs; else all that are new")
    parser.add_argument("--table", action="store_true", help="write the README's")
    chosen = parser.parse_args(arguments)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    known = cases()
    rows = {name: row for name, row in kept.get("rows", {}).items() if name in known}
    new = [name for name in known if name not in rows]
    for name in chosen.names or ([] if chosen.table else new):
        rows[name] = run(known[name])
        print(name, rows[name]["verdicts"], rows[name]["tools"]["torch-checkup"])
        when = datetime.date.today().isoformat()
        about = {"torch": torch.__version__, "when": when, "rows": rows}
        write_atomically(KEPT, json.dumps(about, indent=1) + "\n")
    if chosen.table:
        before, rest = README.read_text().split(MARKS[0])
        _, after = rest.split(MARKS[1])
        README.write_text(f"{before}{MARKS[0]}\n{table(rows)}\n{MARKS[1]}{after}")
    else:
        print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
