"""Runs every notebook on another torch, and explains what differs from the page.

    python -m tests.proof versions --python other/bin/python
    python -m tests.proof versions --python other/bin/python notebooks/04_*.ipynb
    python -m tests.proof versions --python other/bin/python --again  # runs nothing

That Python needs the course's packages: `pip install -e ".[test]"` with a torch of
your choice.  Each notebook runs as tests/strict.py runs it.  What differs is explained
by tests/known.toml, or it is not, and then the command fails.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import failing
from tests.failing import Failure, Known
from tests.proof import common
from tests.refresh import ROOT, notebooks, read

REPORTS = ROOT / ".cache" / "versions"
UNEXPLAINED = "unexplained"
NEEDS = 'it needs the packages of the course: pip install -e ".[test]" with its pip'


def torch_of(python: Path) -> str:
    """Return the version of torch that *python* has; RuntimeError if it has none."""
    code = "import torch; print(torch.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{python} has no torch that can be imported; {NEEDS}")
    return done.stdout.strip().split("+")[0]


def run(python: Path, notebook: Path, report: Path) -> None:
    """Run *notebook* strictly under *python*, and leave a report of it.

    RuntimeError says so when none was written, which is no verdict on the notebook.
    """
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(report.parent / "inductor"))
    done = subprocess.run(
        [python, ROOT / "tests" / "strict.py", notebook, "--junitxml", report, "-q"],
        cwd=ROOT,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode not in (0, 1) or not report.exists():
        said = [line for line in (done.stderr or done.stdout).splitlines() if line]
        last = said[-1] if said else f"exit status {done.returncode}"
        raise RuntimeError(f"{python} could not run {notebook.name} ({last}); {NEEDS}")


# --- what it found ------------------------------------------------------------------


def judged(notebook: Path, report: Path) -> str:
    """Return how many claims of a notebook hold, do not, or were not reached.

    A false claim ends its cell, so those that follow it there are not reached.
    """
    broken = {one.cell: one for one in failing.read(report)}
    skipped = failing.not_run(report)
    cells = [c.source for c in read(notebook).cells if c.cell_type == "code"]
    counts = Counter({"hold": 0})
    for name, said in ((f"Cell {n}", claims(text)) for n, text in enumerate(cells)):
        if name in skipped:
            counts["not reached"] += len(said)
        else:
            counts.update(_verdicts(said, broken.get(name)))
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _verdicts(said: list[str], failure: Failure | None) -> list[str]:
    if failure is None or not failure.ended:
        return ["hold"] * len(said)
    false = [n for n, text in enumerate(said) if failure.claim.startswith(text)]
    if not false:
        return ["not reached"] * len(said)
    held, rest = ["hold"] * false[0], ["not reached"] * (len(said) - false[0] - 1)
    return [*held, "do not", *rest]


def claims(source: str) -> list[str]:
    """Return the text of each claim in the code of a cell, in order."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        ast.literal_eval(call.args[0])
        for call in sorted(calls, key=lambda call: call.lineno)
        if isinstance(call.func, ast.Name) and call.func.id == "claim"
    ]


def rows(notebook: Path, report: Path, torch: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each cell that differs, or one that says that none does."""
    always = {"torch": torch, "notebook": notebook.stem[:2]}
    always["claims"] = judged(notebook, report)
    failures, table = failing.read(report), failing.known()
    for one in failures:
        yield {
            **always,
            "cell": one.heading,
            "wanted, got": difference(one),
            "why": failing.explanation(one, table) or UNEXPLAINED,
        }
    if not failures:
        yield {**always, "cell": "", "wanted, got": "the same", "why": ""}


def difference(failure: Failure) -> str:
    """Return the first line that differs, as wanted and as it came, in one line.

    Folders of this machine are left out, for this is recorded.
    """
    return re.sub(r"(?<![\w./])/[\w./-]+", "…", _difference(failure))


def _difference(failure: Failure) -> str:
    if failure.ended:
        return failing.short(failure.lines[0])
    sides: dict[str, str] = {}
    for line in failure.lines:
        _, side, text = (*line.split(" ", 2), "")[:3]
        if text.strip(" ─"):
            sides.setdefault(side, " ".join(text.split()))
    wanted, got = (sides.get(side, "nothing") for side in "-+")
    return f"wanted {failing.short(wanted)!r}, got {failing.short(got)!r}"


def unneeded(torch: str, found: list[dict[str, Any]]) -> list[Known]:
    """Return the entries for a notebook on this torch that explain no row of it."""
    asked = [one for one in failing.known() if one.notebook and not one.without_triton]
    said = " ".join(row["why"] for row in found)
    return [one for one in asked if torch in one.torch and one.why not in said]


# --- the command --------------------------------------------------------------------


def keep(torch: str, notebook: Path, found: list[dict[str, Any]]) -> None:
    """Put the rows in place of older ones of this torch and notebook."""
    kept = (common.read("versions") or {"rows": []})["rows"]
    name = notebook.stem[:2]
    kept = [r for r in kept if (r["torch"], r["notebook"]) != (torch, name)]
    merged = sorted([*kept, *found], key=lambda r: (r["torch"], r["notebook"]))
    common.record("versions", merged, command="versions --python OTHER/bin/python")


def main(arguments: list[str]) -> int:
    """Run, record and explain; 1 when a difference has no explanation."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof versions", description=__doc__.split("\n")[0]
    )
    parser.add_argument("notebook", nargs="*", type=Path, default=notebooks())
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--again", action="store_true", help="only explain anew")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="a folder")
    chosen = parser.parse_args(arguments)
    try:
        torch = torch_of(chosen.python)
        found = []
        for notebook in chosen.notebook:
            report = chosen.reports / torch / f"{notebook.stem}.xml"
            if not chosen.again:
                run(chosen.python, notebook, report)
            these = list(rows(notebook, report, torch))
            keep(torch, notebook, these)
            found += these
            _tell(notebook, these)
    except (RuntimeError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 2
    if chosen.notebook == notebooks():
        for entry in unneeded(torch, found):
            print(f"tests/known.toml explains nothing of {entry.notebook}: {entry.why}")
    unexplained = sum(row["why"] == UNEXPLAINED for row in found)
    explained = sum(bool(row["why"]) for row in found) - unexplained
    print(f"torch {torch}: explained {explained}, unexplained {unexplained}")
    return 1 if unexplained else 0


def _tell(notebook: Path, found: list[dict[str, Any]]) -> None:
    print(f"{notebook.name}: claims: {found[0]['claims']}")
    for row in found:
        if row["why"]:
            print(f"  {row['cell']}: {row['wanted, got']}\n    {row['why']}")
    sys.stdout.flush()
