"""Runs every notebook on another torch, and explains what differs from the page.

    python -m tests.proof versions --python other/bin/python
    python -m tests.proof versions --python other/bin/python notebooks/04_*.ipynb

That Python needs the course's packages: `pip install -e ".[test,practice]"` with a
torch of your choice.  Each notebook runs as `tests.strict` runs it.  What differs
is explained by tests/known.toml, or it is not, and then the command fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import failing
from tests.proof import common
from tests.refresh import ROOT, a_notebook, key_of, pages
from tools.commands import command

REPORTS = ROOT / ".cache" / "versions"
UNEXPLAINED = "unexplained"
NEEDS = 'it needs what pip install -e ".[test,practice]" brings, by its own pip'


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
        [python, "-m", "tests.strict", notebook, "--junitxml", report, "-q"],
        cwd=ROOT,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode not in (0, 1) or not report.exists():
        message = (done.stderr or done.stdout).strip().split("\n")[-1]
        raise RuntimeError(
            f"{python} could not run {notebook.name} ({message}); {NEEDS}"
        )


def rows(notebook: Path, report: Path, torch: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each cell that differs, or one that says that none does."""
    always = {"torch": torch, "notebook": key_of(notebook)}
    failures, table = failing.read(report), failing.known()
    for failure in failures:
        # Folders of this machine are left out, for this is recorded.
        said = re.sub(r"(?<![\w./])/[\w./-]+", "…", "; ".join(failure.lines[:2]))
        why = failing.explanation(failure, table) or UNEXPLAINED
        yield {
            **always,
            "cell": failure.heading,
            "said": failing.short(said),
            "why": why,
        }
    if not failures:
        yield {**always, "cell": "", "said": "the same", "why": ""}


def keep(torch: str, notebook: Path, found: list[dict[str, Any]]) -> None:
    """Put the rows in place of older ones of this torch and notebook."""
    key = torch, key_of(notebook)
    kept = (common.read("versions") or {"rows": []})["rows"]
    kept = [r for r in kept if (r["torch"], r["notebook"]) != key]
    merged = sorted([*kept, *found], key=lambda r: (r["torch"], r["notebook"]))
    common.record("versions", merged, command="versions --python OTHER/bin/python")


def main(arguments: list[str]) -> int:
    """Run, record and explain; 1 when a difference has no explanation."""
    parser = command("tests.proof versions", __doc__, "a difference has no explanation")
    parser.add_argument("notebook", nargs="*", type=a_notebook, default=pages())
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--reports", type=Path, default=REPORTS, help="a folder")
    chosen = parser.parse_args(arguments)
    unexplained = 0
    try:
        torch = torch_of(chosen.python)
        for notebook in chosen.notebook:
            report = chosen.reports / torch / f"{notebook.stem}.xml"
            run(chosen.python, notebook, report)
            found = list(rows(notebook, report, torch))
            keep(torch, notebook, found)
            unexplained += sum(row["why"] == UNEXPLAINED for row in found)
            for row in found:
                print(notebook.name, *list(row.values())[2:], sep=": ", flush=True)
    except (RuntimeError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(f"torch {torch}: {unexplained} differences are not explained")
    return 1 if unexplained else 0
