"""Change a helper in one place, again and again, and count which changes tests see.

    python -m uv pip install --group proof          # mutmut, which makes the changes
    python -m tests.proof mutants stats text        # helpers/stats.py, helpers/text.py

A module is held against the tests that have its name: stats against
tests/test_stats.py, gpu.tidy against tests/test_tidy.py.  It takes minutes for a small
module and hours for a large one.  Runs in a copy of the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.proof import common
from tests.refresh import ROOT

# torch has threads: a worker is forked from a process that imported it and ran nothing.
SETTINGS = """

[tool.mutmut]
source_paths = ["helpers"]
only_mutate = ["{module}"]
pytest_add_cli_args_test_selection = ["{tests}"]
also_copy = {also_copy}
process_isolation = "forkserver"
"""


def mutate(module: str, folder: Path) -> dict[str, Any]:
    """Run mutmut on one module in a copy of the checkout, and return its row."""
    path = f"helpers/{module.replace('.', '/')}.py"
    tests = f"tests/test_{module.split('.')[-1].removeprefix('_')}.py"
    for needed in (path, tests):
        if not (ROOT / needed).exists():
            raise FileNotFoundError(f"there is no {needed}")
    unwanted = shutil.ignore_patterns(".*", "mutants", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=unwanted, dirs_exist_ok=True)
    also_copy = [p.name for p in folder.iterdir() if p.name not in ("tests", "helpers")]
    settings = SETTINGS.format(module=path, tests=tests, also_copy=also_copy)
    with (folder / "pyproject.toml").open("a") as file:
        file.write(settings)
    env = {**os.environ, "COURSE_QUIET": "1"}
    # The tests must see the copy, wherever this checkout is on the path.
    paths = env.get("PYTHONPATH", "").split(os.pathsep)
    env["PYTHONPATH"] = os.pathsep.join(p for p in paths if p and Path(p) != ROOT)
    for command in (["run"], ["export-cicd-stats"]):
        subprocess.run(
            [sys.executable, "-m", "mutmut", *command], cwd=folder, env=env, check=True
        )
    counts = json.loads((folder / "mutants" / "mutmut-cicd-stats.json").read_text())
    noticed = counts["killed"] + counts["timeout"] + counts["segfault"]
    return {
        "module": path,
        "tests": tests,
        "mutants": counts["total"],
        "noticed": noticed,
        "survived": counts["survived"],
        "no test runs it": counts["no_tests"],
        "share": f"{noticed / max(1, counts['total']):.0%}",
    }


def main(arguments: list[str]) -> int:
    """Mutate each module that is named, and record how many changes were noticed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof mutants", description=__doc__.split("\n")[0]
    )
    parser.add_argument("module", nargs="+", help="stats, text, gpu.tidy, ...")
    rows = common.kept("mutants", "module")
    for module in parser.parse_args(arguments).module:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            row = mutate(module, Path(folder))
        rows[row["module"]] = row
        print(*row.values(), sep=" | ", flush=True)
        common.record("mutants", [rows[name] for name in sorted(rows)])
    return 0
