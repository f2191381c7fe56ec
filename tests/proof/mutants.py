"""Change a module in one place, again and again, and count which changes tests see.

    python -m uv pip install --group proof      # mutmut, which makes the changes
    python -m tests.proof mutants helpers/stats.py torch_checkup/explain.py
    python -m tests.proof mutants --draw 12 helpers/s*.py  # 12 of each, drawn anew
    python -m tests.proof mutants --draw 12 all # of every module that has tests

A module is held against the tests that have its place and name: helpers/stats.py
against tests/helpers/test_stats.py.  All of its mutants take minutes for a small module
and hours for a large one.  The last row adds up what was tried, each module by its
size, with a 95 % interval.  Runs in a copy of the checkout.

A process that a test starts runs the changed module too, but cannot help to count which
tests run a function: mutmut's settings are not where it runs.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

from tests.proof import common
from tests.refresh import ROOT
from tools.commands import command

MODULES = ("helpers", "torch_checkup")
COUNTS = ("noticed", "survived", "no test runs it")
# torch has threads: a worker is forked from a process that imported it and ran nothing.
SETTINGS = """

[tool.mutmut]
source_paths = ["{path}"]
also_copy = {everything}
pytest_add_cli_args_test_selection = ["{tests}"]
process_isolation = "forkserver"
"""
COUNT_HERE = """

@pytest.fixture(autouse=True)
def processes_count_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("MUTANT_UNDER_TEST") == "stats":
        monkeypatch.delenv("MUTANT_UNDER_TEST")
"""


def tests_of(path: str) -> str:
    """Return the file of the tests that have the place and name of a module."""
    module = Path(path)
    return f"tests/{module.parent}/test_{module.stem.removeprefix('_')}.py"


def every_module() -> list[str]:
    """Return the paths of the modules that have tests of their name."""
    found = [path for name in MODULES for path in (ROOT / name).rglob("*.py")]
    paths = sorted(path.relative_to(ROOT).as_posix() for path in found)
    return [path for path in paths if (ROOT / tests_of(path)).exists()]


def mutmut_for(path: str, folder: Path) -> Callable[..., str]:
    """Copy the checkout to *folder*; return mutmut there: words to what it prints."""
    unwanted = shutil.ignore_patterns(".*", "mutants", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=unwanted, dirs_exist_ok=True)
    names = {"everything": [p.name for p in folder.iterdir()], "tests": tests_of(path)}
    with (folder / "pyproject.toml").open("a") as file:
        file.write(SETTINGS.format(path=path, **names))
    with (folder / "tests" / "conftest.py").open("a") as file:
        file.write(COUNT_HERE)
    # All processes must import the changed module, wherever the checkout is installed.
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(folder / "mutants")}

    def mutmut(*words: str) -> str:
        command = [sys.executable, "-m", "mutmut", *words]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run(command, cwd=folder, env=env, **piped).stdout

    return mutmut


def mutate(path: str, folder: Path, draw: int | None) -> dict[str, Any]:
    """Try *draw* mutants of one module, or all; return their row.

    It works in *folder*, in a copy of the checkout.
    """
    for needed in (path, tests_of(path)):
        if not (ROOT / needed).exists():
            raise FileNotFoundError(f"there is no {needed}")
    mutmut = mutmut_for(path, folder)

    def results() -> dict[str, str]:
        lines = mutmut("results", "--all", "true").splitlines()
        return dict(line.strip().split(": ") for line in lines)

    said = mutmut("run", "no such name")  # all mutants are made, and none is tried
    every = sorted(results())
    drawn = random.sample(every, min(draw or len(every), len(every)))
    said = mutmut("run", *drawn) if drawn else said
    became = results()
    count = Counter(became[name] for name in drawn)
    assert drawn and not count["not checked"], said[-2000:]
    noticed = count["killed"] + count["timeout"] + count["segfault"]
    for name in drawn:
        if became[name] in ("survived", "no tests"):
            print("not noticed:", mutmut("show", name))
    return {
        "module": path,
        "mutants": f"{len(drawn)} of {len(every)}",
        "noticed": noticed,
        "survived": count["survived"],
        "no test runs it": count["no tests"],
        "share": f"{noticed / max(1, len(drawn)):.0%}",
    }


def total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last row: all modules together, the share with its interval.

    A module counts by its mutants, not by how many of them were drawn, or the small
    modules, of which all are tried, would speak for the large ones.
    """
    drawn_of = [str(row["mutants"]).split(" of ") for row in rows]
    sizes = [(int(drawn[0]), int(drawn[-1])) for drawn in drawn_of]
    every, share, variance = sum(size for _, size in sizes), 0.0, 0.0
    for row, (drawn, size) in zip(rows, sizes, strict=True):
        weight, noticed = size / every, row["noticed"]
        share += weight * noticed / drawn
        p = (noticed + 1) / (drawn + 2)  # 12 of 12 do not say that all are noticed
        variance += weight**2 * p * (1 - p) / drawn * (1 - drawn / size)
    half = NormalDist().inv_cdf(0.975) * variance**0.5
    tried = f"{sum(drawn for drawn, _ in sizes)} of {every}"
    first = {"module": "all of these", "mutants": tried}
    counts = {key: sum(row[key] for row in rows) for key in COUNTS}
    interval = f"{share - half:.0%} to {min(1.0, share + half):.0%}"
    return {**first, **counts, "share": f"{share:.0%} ({interval})"}


def main(arguments: list[str]) -> int:
    """Mutate each module that is named; return 1 when one could not be tried."""
    parser = command("tests.proof mutants", __doc__, "a module could not be tried")
    parser.add_argument("module", nargs="+", help="paths of modules, or all")
    parser.add_argument("--draw", type=int, help="so many of each, by chance")
    asked = parser.parse_args(arguments)
    kept = common.kept("mutants", "module")
    rows = {path: row for path, row in kept.items() if (ROOT / path).exists()}
    failed = 0
    for module in every_module() if asked.module == ["all"] else asked.module:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            try:
                row = mutate(module, Path(folder), asked.draw)
            except (FileNotFoundError, AssertionError) as problem:
                failed += 1
                print(f"{module}: {problem}", flush=True)
                continue
        rows[row["module"]] = row
        print(*row.values(), sep=" | ", flush=True)
        in_order = [rows[name] for name in sorted(rows)]
        common.record("mutants", [*in_order, total(in_order)])
    if rows:
        print(*total([*rows.values()]).values(), sep=" | ")
    return int(failed > 0)
