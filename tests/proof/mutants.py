"""Change a helper in one place, again and again, and count which changes tests see.

    python -m uv pip install --group proof          # mutmut, which makes the changes
    python -m tests.proof mutants stats text        # helpers/stats.py, helpers/text.py
    python -m tests.proof mutants --draw 12 session  # 12 of its mutants, drawn anew

A module is held against the tests that have its name: stats against
tests/test_stats.py, gpu.tidy against tests/test_tidy.py.  All of its mutants take
minutes for a small module and hours for a large one.  Runs in a copy of the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
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


def mutate(module: str, folder: Path, draw: int | None) -> dict[str, Any]:
    """Run mutmut on *draw* mutants of one module, or on all; return their row.

    It works in *folder*, in a copy of the checkout.
    """
    from mutmut.stats import status_by_exit_code

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

    def run(*names: str) -> dict[str, int | None]:
        """Try the mutants of these names; return how the tests of each ended."""
        mutmut = [sys.executable, "-m", "mutmut", "run", *names]
        done = subprocess.run(mutmut, cwd=folder, env=env, capture_output=True)
        noted = folder / "mutants" / f"{path}.meta"
        assert noted.exists(), done.stderr.decode()
        return json.loads(noted.read_text())["exit_code_by_key"]

    every = sorted(run("no such name"))  # the mutants are made, and none is tried
    drawn = random.sample(every, min(draw or len(every), len(every)))
    ended = run(*drawn)
    found = Counter(status_by_exit_code[ended[name]] for name in drawn)
    assert not found["not checked"], f"{tests} fails where nothing is changed"
    noticed = found["killed"] + found["timeout"] + found["segfault"]
    for name in drawn:
        if status_by_exit_code[ended[name]] in ("survived", "no tests"):
            print("not noticed:", name)
    return {
        "module": path,
        "tests": tests,
        "mutants": f"{len(drawn)} of {len(every)}",
        "noticed": noticed,
        "survived": found["survived"],
        "no test runs it": found["no tests"],
        "share": f"{noticed / max(1, len(drawn)):.0%}",
    }


def main(arguments: list[str]) -> int:
    """Mutate each module that is named, and record how many changes were noticed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof mutants", description=__doc__.split("\n")[0]
    )
    parser.add_argument("module", nargs="+", help="stats, text, gpu.tidy, ...")
    parser.add_argument("--draw", type=int, help="so many of each, by chance")
    asked = parser.parse_args(arguments)
    rows = common.kept("mutants", "module")
    for module in asked.module:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            row = mutate(module, Path(folder), asked.draw)
        rows[row["module"]] = row
        print(*row.values(), sep=" | ", flush=True)
        common.record("mutants", [rows[name] for name in sorted(rows)])
    return 0
