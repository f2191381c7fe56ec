"""Change a module in one place, again and again, and count which changes tests see.

    python -m uv pip install --group proof      # mutmut, which makes the changes
    python -m tests.proof mutants helpers/stats.py
    python -m tests.proof mutants helpers/judge.py --draw 12 \\
        --tests tests/helpers/test_judge.py tests/helpers/test_correctness.py

A module is held against the tests that have its place and name, helpers/stats.py
against tests/helpers/test_stats.py, or against those that are named.  All of its
mutants take minutes for a small module and hours for a large one; *draw* tries so many.
Runs in a copy of the checkout.

Each mutant is written into the file, for a process that a test starts must run it, too,
and all tests of the module run until one fails.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import records
from tests.refresh import ROOT
from tools.commands import command

SETTINGS = """

[tool.mutmut]
source_paths = ["{path}"]
also_copy = {everything}
pytest_add_cli_args_test_selection = {tests}
"""


def mutmut_for(path: str, tests: list[str], folder: Path) -> Callable[..., str]:
    """Copy the checkout to *folder*; return mutmut there: words to what it prints.

    Keywords are variables of its environment.
    """
    unwanted = shutil.ignore_patterns(".*", "mutants", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=unwanted, dirs_exist_ok=True)
    everything = [place.name for place in folder.iterdir()]
    with (folder / "pyproject.toml").open("a") as file:
        file.write(SETTINGS.format(path=path, everything=everything, tests=tests))
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(folder / "mutants")}

    def mutmut(*words: str, **more: str) -> str:
        command = [sys.executable, "-m", "mutmut", *words]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run(command, cwd=folder, env=env | more, **piped).stdout

    return mutmut


def fails(tests: list[str], folder: Path) -> bool:
    """Return whether one of *tests* fails with the module as it is in *folder*."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(folder)}
    return bool(
        subprocess.run(command, cwd=folder, env=env, capture_output=True).returncode
    )


def mutate(
    path: str, tests: list[str], folder: Path, draw: int | None
) -> dict[str, Any]:
    """Return the row of a module, for which *draw* mutants are tried, or all.

    It works in *folder*, in a copy of the checkout.
    """
    mutmut = mutmut_for(path, tests, folder)
    # All mutants are made, and no test runs.
    said = mutmut("run", PYTEST_ADDOPTS="--collect-only")
    lines = mutmut("results", "--all", "true").splitlines()
    made = sorted(line.strip().split(": ")[0] for line in lines)
    assert made, said[-2000:]
    assert not fails(tests, folder), "the tests fail with nothing changed"
    names = random.sample(made, min(draw or len(made), len(made)))
    file, survived = folder / path, 0
    source = file.read_text("utf-8")
    for name in names:
        said = mutmut("apply", name)
        assert file.read_text("utf-8") != source, said
        if not fails(tests, folder):
            survived += 1
            print("not noticed:", mutmut("show", name))
        file.write_text(source, "utf-8")
    noticed = len(names) - survived
    return {
        "module": path,
        "mutants": f"{len(names)} of {len(made)}",
        "noticed": noticed,
        "survived": survived,
        "share": f"{noticed / len(names):.0%}",
    }


def main(arguments: list[str]) -> int:
    """Mutate a module, and record what its tests noticed."""
    parser = command("tests.proof mutants", __doc__, "the module could not be tried")
    parser.add_argument("module", help="its path")
    parser.add_argument("--tests", nargs="+", help="files; else that of its name")
    parser.add_argument("--draw", type=int, help="so many, by chance")
    asked = parser.parse_args(arguments)
    path = Path(asked.module)
    tests = asked.tests or [f"tests/{path.parent}/test_{path.stem}.py"]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        try:
            row = mutate(asked.module, tests, Path(folder), asked.draw)
        except AssertionError as problem:
            print(problem, file=sys.stderr)
            return 1
    print(*row.values(), sep=" | ")
    known = records.kept("proofs/mutants", "module")
    records.put("proofs/mutants", "module", row, sorted({*known, asked.module}))
    return 0
