"""Count the lines of the helpers that their tests run.

    python -m tests.proof coverage [MORE ARGUMENTS OF PYTEST]

No notebook is run for it, for a line that a lesson happens to pass has not been
tested: the files of NOT_COUNTED, which look at notebooks, documents and the setup,
stay out, and so do the solutions of the exercises.  Processes that the tests start
count with them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.proof.common import markdown, record

ROOT = Path(__file__).parents[2]
NOT_COUNTED = "notebooks companions bootstrap benchmarks environment links refresh"
SOLUTIONS = "tests/test_exercises.py::test_only_right_answers_pass"
SETTINGS = """\
[run]
source = helpers
data_file = {folder}/data
parallel = True
patch = subprocess
sigterm = True
"""


def tests() -> list[str]:
    """Return what pytest is asked to run."""
    named = {f"test_{name}.py" for name in NOT_COUNTED.split()}
    files = sorted((ROOT / "tests").glob("test_*.py"))
    asked = [f for f in files if f.name not in named and "proof" not in f.name]
    return [str(f.relative_to(ROOT)) for f in asked] + ["--deselect", SOLUTIONS]


def rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each module of coverage.py's JSON report, and their sum."""
    found = {name: file["summary"] for name, file in report["files"].items()}
    found["all"] = report["totals"]
    return [
        {
            "module": name,
            "lines": of["num_statements"],
            "run": of["covered_lines"],
            "share": f"{of['percent_covered']:.1f}%",
        }
        for name, of in found.items()
        if of["num_statements"]
    ]


def missing(report: dict[str, Any]) -> list[str]:
    """Return ``helpers/clock.py: 3, 4`` for each module with lines that none ran."""
    return [
        f"{name}: {', '.join(map(str, file['missing_lines']))}"
        for name, file in report["files"].items()
        if file["missing_lines"]
    ]


def main(arguments: list[str]) -> int:
    """Run the tests of the helpers, count, and record; 1 when a test fails."""
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        settings, report = Path(folder, "settings"), Path(folder, "report.json")
        settings.write_text(SETTINGS.format(folder=folder))

        def coverage(*words: str) -> int:
            env = os.environ | {"COURSE_STRICT": "1", "COVERAGE_RCFILE": str(settings)}
            command = [sys.executable, "-m", "coverage", *words]
            return subprocess.run(command, cwd=ROOT, env=env).returncode

        pytest = ("pytest", "-q", "-p", "no:cacheprovider", *tests(), *arguments)
        failed = coverage("run", "-m", *pytest)
        coverage("combine", "--quiet")
        if coverage("json", "--quiet", "-o", str(report)):
            return 1
        found = json.loads(report.read_text())
    print("never run:", *missing(found), sep="\n")
    print(markdown(rows(found)))
    # A test that failed has not run all that it would: the count is too low, if any.
    record("coverage", rows(found), all_tests_passed=not failed)
    return failed
