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
and all tests of the module run until one fails.  A mutant that changes the words of a
sentence is not drawn: no test freezes a sentence that nothing parses.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
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


def ran(folder: Path, *words: str, path: Path, **more: str) -> Any:
    """Run a module of Python in *folder*, with *path* to import from; *more* is env."""
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(path), **more}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run([sys.executable, "-m", *words], cwd=folder, env=env, **piped)


def copy(path: str, tests: list[str], folder: Path) -> None:
    """Copy the checkout to *folder*, with the settings of mutmut."""
    unwanted = shutil.ignore_patterns(".*", "mutants", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=unwanted, dirs_exist_ok=True)
    everything = [place.name for place in folder.iterdir()]
    with (folder / "pyproject.toml").open("a") as file:
        file.write(SETTINGS.format(path=path, everything=everything, tests=tests))


def code(source: str) -> str:
    """Return the tree of *source* as text, with each sentence left out."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and " " in str(node.value).strip("X"):
            node.value = ""
    return ast.dump(tree)


def mutate(
    path: str, tests: list[str], folder: Path, draw: int | None
) -> dict[str, Any]:
    """Return the row of a module, for which *draw* mutants are tried, or all."""
    copy(path, tests, folder)

    def mutmut(*words: str, **more: str) -> str:
        where = folder / "mutants"
        return ran(folder, "mutmut", *words, path=where, **more).stdout

    def fails() -> bool:
        every = "-m", "", *tests  # those that run weekly, too
        return bool(ran(folder, "pytest", "-q", "-x", *every, path=folder).returncode)

    # All mutants are made, and no test runs.
    said = mutmut("run", PYTEST_ADDOPTS="--collect-only")
    lines = mutmut("results", "--all", "true").splitlines()
    made = sorted(line.strip().split(": ")[0] for line in lines)
    assert made, said[-2000:]
    assert not fails(), "the tests fail with nothing changed"
    file, tried, survived = folder / path, 0, 0
    source = file.read_text("utf-8")
    for name in random.sample(made, len(made)):
        if tried == draw:
            break
        said = mutmut("apply", name)
        mutant = file.read_text("utf-8")
        assert mutant != source, said
        if code(mutant) != code(source):
            tried += 1
            if not fails():
                survived += 1
                print("not noticed:", mutmut("show", name), flush=True)
        file.write_text(source, "utf-8")
    assert tried, "no mutant changes more than sentences"
    return {
        "module": path,
        "mutants": f"{tried} of {len(made)}",
        "noticed": tried - survived,
        "survived": survived,
        "share": f"{(tried - survived) / tried:.0%}",
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
