"""Run the field corpus: the check-up beside torch's own tools, on the same programs.

    python -m tests.field                   all programs, into data/proofs/field.json
    python -m tests.field "a counter in the model"
    python -m tests.field --table           write the tables of the README anew

tlparse is asked where it is installed; the group `proof` brings it.  Each program is
kept as it is done: what is interrupted goes on where it was, and a program that
changed is run anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any

from helpers.results import write_atomically
from tests import records
from tests.field import tables
from tests.field.corpus import ASKED, RAISED, Case, cases, judged, judged_by_words
from tests.refresh import ROOT
from tools.commands import command
from torch_checkup import checkup
from torch_checkup.report import Checkup

KEPT = "proofs/field"
README = ROOT / "torch_checkup" / "README.md"
PAGE = README.parent / tables.PAGE
_PAGES = ("*graph_break_reason*", "*recompile_reasons*", "failures_and_restarts*")
_TIMEOUT = 300  # seconds for one tool and one program
_FOLDERS = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
_TLPARSE = which("tlparse", path=_FOLDERS)


def run(case: Case) -> dict[str, Any]:
    """Return what each tool made of a program."""
    with tempfile.TemporaryDirectory(prefix="field-") as folder:
        program = Path(folder) / "program.py"
        program.write_text(case.code)
        found = _checked(case, program)
        if found.interrupted:  # it keeps its parts, and this row would be a wrong one
            raise KeyboardInterrupt
        told = {"torch-checkup": asdict(judged(case, found))}
        for tool, text in _words(case, program).items():
            told[tool] = asdict(judged_by_words(case, text, tables.RIVALS[tool]))
    says = {part.name: f"{part.verdict}: {part.says}" for part in found.parts}
    return {"program": case.name, "key": case.key, "says": says, "tools": told}


def _checked(case: Case, program: Path) -> Checkup:
    """Return a check-up of what the tables need: kernels are built for answers alone.

    Where a wrong answer comes from is looked for where a line is to be named.
    """
    parts = [case.part] if case.part not in ASKED else [*ASKED]
    if case.part in ("capture", "recompiles", "silent") and not case.healthy:
        parts.remove("matches")
    how = {"only": parts, "train": case.train, "timeout": 180}
    return checkup(f"{program}:make", search=bool(case.line), **how)


def _words(case: Case, program: Path) -> dict[str, str]:
    """Return all that each tool of torch shows, tlparse's where it is installed.

    What they show is Dynamo's, so kernels are built for answers alone: there, whoever
    runs the program sees what any layer raises.
    """
    backend = "inductor" if case.part == "matches" else "eager"
    trace = program.with_name("trace")
    env = {"TORCH_LOGS": "graph_breaks,recompiles", "TORCH_TRACE": str(trace)}
    words = {"logs": _said(backend, program, **env)}
    # Of answers it shows no more than that nothing raises.
    asked = case.part != "matches" or RAISED in words["logs"]
    words["explain"] = _said("explain", program) if asked else ""
    if _TLPARSE:
        lines = words["logs"].splitlines()  # whoever runs it sees what it raises
        raised = [line for line in lines if line.startswith(RAISED)]
        words["tlparse"] = "\n".join((_parsed(trace), *raised))
    return words


def _said(what: str, program: Path, **env: str) -> str:
    """Return what a process says of a program: of one without end, what it had."""
    command = [sys.executable, "-m", "tests.field.rivals", what, str(program)]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "cwd": ROOT}
    how |= {"text": True, "timeout": _TIMEOUT, "env": {**os.environ, **env}}
    try:
        return subprocess.run(command, **how).stdout
    except subprocess.TimeoutExpired as ended:
        return (ended.stdout or b"").decode(errors="replace")


def _parsed(trace: Path) -> str:
    """Return the pages of tlparse that name an issue, each after its file's name."""
    [*logs] = trace.glob("*.log")
    out = trace.with_name("pages")
    command = [_TLPARSE, *map(str, logs[:1]), "--no-browser", "-o", str(out)]
    subprocess.run(command, capture_output=True, timeout=_TIMEOUT)
    pages = [page for kind in _PAGES for page in out.rglob(kind)]
    return "\n".join(f"{p.name}: {p.read_text(errors='replace')}" for p in pages)


def known() -> dict[str, dict[str, Any]]:
    """Return the rows that were kept of programs as they are today."""
    rows, now = records.kept(KEPT, "program"), cases()
    return {n: row for n, row in rows.items() if n in now and now[n].key == row["key"]}


def written() -> dict[Path, str]:
    """Return the README with the totals of today, and the page of each program."""
    about = cases(), known(), records.origin(records.read(KEPT))
    readme, page = (path.read_text("utf-8") for path in (README, PAGE))
    return {
        README: records.renewed(readme, "field", tables.text(*about)),
        PAGE: tables.page(page, *about),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the programs that are named, or all that were not run; return 0."""
    parser = command("tests.field", __doc__)
    parser.add_argument("names", nargs="*", help="programs; else all that are new")
    parser.add_argument("--table", action="store_true", help="write the README's")
    chosen = parser.parse_args(arguments)
    if chosen.table:
        for file, text in written().items():
            write_atomically(file, text)
        return 0
    for name in chosen.names or [name for name in cases() if name not in known()]:
        row = run(cases()[name])
        records.put(KEPT, "program", row, cases(), "tests.field")
        print(name, row["says"], row["tools"]["torch-checkup"], flush=True)
    print(tables.totals(cases(), known()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
