"""Runs every notebook on another torch, and explains what differs from the page.

    python -m tests.proof versions --python other/bin/python
    python -m tests.proof versions --python other/bin/python notebooks/04_*.ipynb

That Python needs the course's packages: `pip install -e ".[test,practice]"` with a
torch of your choice.  Each notebook runs as `tests.strict` runs it.  What differs
is explained by tests/known.toml, or it is not, and then the command fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import failing
from tests.refresh import ROOT, a_notebook, pages
from tools.commands import command

REPORTS = ROOT / ".cache" / "versions"
NEEDS = 'it needs what pip install -e ".[test,practice]" brings, by its own pip'


def run(
    python: Path,
    notebook: Path,
    report: Path,
    *options: str,
    cwd: Path = ROOT,
    **variables: str,
) -> None:
    """Run *notebook* strictly under *python*, and leave a report of it.

    *options* are those of ``tests.strict``, *cwd* is the checkout, *variables* are of
    the environment.
    RuntimeError says so when none was written, which is no verdict on the notebook.
    """
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    part = report.with_suffix(".part")  # of a run that is stopped, none is left
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(report.parent / "inductor"))
    done = subprocess.run(
        [python, "-m", "tests.strict", notebook, "--junitxml", part, "-q", *options],
        cwd=cwd,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, **variables},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode not in (0, 1) or not part.exists():
        message = (done.stderr or done.stdout).strip().split("\n")[-1]
        raise RuntimeError(
            f"{python} could not run {notebook.name} ({message}); {NEEDS}"
        )
    part.replace(report)


def main(arguments: list[str]) -> int:
    """Run and explain; 1 when a difference has no explanation."""
    parser = command("tests.proof versions", __doc__, "a difference has no explanation")
    parser.add_argument("notebook", nargs="*", type=a_notebook, default=pages())
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--reports", type=Path, default=REPORTS, help="a folder")
    chosen = parser.parse_args(arguments)
    unexplained, table = 0, failing.known()
    try:
        for notebook in chosen.notebook:
            report = chosen.reports / f"{notebook.stem}.xml"
            run(chosen.python, notebook, report)
            failures = failing.read(report)
            print(notebook.name, "" if failures else "is the same", flush=True)
            for failure in failures:
                why = failing.explanation(failure, table) or "unexplained"
                unexplained += why == "unexplained"
                said = failing.short("; ".join(failure.lines[:2]))
                print(" ", failure.heading, said, why, sep=": ", flush=True)
    except (RuntimeError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(f"{unexplained} differences are not explained")
    return 1 if unexplained else 0
