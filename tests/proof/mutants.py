"""Change a helper in one place, again and again, and count which changes tests see.

    python -m uv pip install --group proof          # mutmut, which makes the changes
    python -m tests.proof mutants stats text        # helpers/stats.py, helpers/text.py
    python -m tests.proof mutants --draw 12 session  # 12 of its mutants, drawn anew
    python -m tests.proof mutants --draw 12 all     # of every module that has tests

A module is held against the tests that have its place and name: stats against
tests/helpers/test_stats.py, gpu.tidy against tests/helpers/gpu/test_tidy.py.  All of
its mutants take minutes for a small module and hours for a large one.  The last row
adds up what was tried, each module by its size, with a 95 % interval.  Runs in a copy
of the checkout.

Two things there are unlike the checkout.  mutmut wraps each function, so `claim` finds
its caller two frames further out.  And a process that a test starts cannot help to
count which tests run a function: mutmut's settings are not where it runs.
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
from statistics import NormalDist
from typing import Any

from tests.proof import common
from tests.refresh import ROOT

COUNTS = ("noticed", "survived", "no test runs it")
# torch has threads: a worker is forked from a process that imported it and ran nothing.
SETTINGS = """

[tool.mutmut]
source_paths = ["helpers"]
only_mutate = ["{module}"]
pytest_add_cli_args_test_selection = ["{tests}"]
also_copy = {also_copy}
process_isolation = "forkserver"
"""
CALLER = "currentframe().f_back"  # see above
COUNT_HERE = """

@pytest.fixture(autouse=True)
def processes_count_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("MUTANT_UNDER_TEST") == "stats":
        monkeypatch.delenv("MUTANT_UNDER_TEST")
"""


def tests_of(module: str) -> str:
    """Return the file of the tests that have the name of a module."""
    *folders, name = module.split(".")
    return "/".join(["tests/helpers", *folders, f"test_{name.removeprefix('_')}.py"])


def every_module() -> list[str]:
    """Return the modules that have tests of their name."""
    paths = sorted((ROOT / "helpers").rglob("*.py"))
    parts = [path.relative_to(ROOT / "helpers").with_suffix("").parts for path in paths]
    names = [".".join(each) for each in parts]
    return [name for name in names if (ROOT / tests_of(name)).exists()]


def mutate(module: str, folder: Path, draw: int | None) -> dict[str, Any]:
    """Run mutmut on *draw* mutants of one module, or on all; return their row.

    It works in *folder*, in a copy of the checkout.
    """
    from mutmut.stats import status_by_exit_code

    path, tests = f"helpers/{module.replace('.', '/')}.py", tests_of(module)
    for needed in (path, tests):
        if not (ROOT / needed).exists():
            raise FileNotFoundError(f"there is no {needed}")
    unwanted = shutil.ignore_patterns(".*", "mutants", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=unwanted, dirs_exist_ok=True)
    also_copy = [p.name for p in folder.iterdir() if p.name not in ("tests", "helpers")]
    settings = SETTINGS.format(module=path, tests=tests, also_copy=also_copy)
    with (folder / "pyproject.toml").open("a") as file:
        file.write(settings)
    with (folder / "tests" / "conftest.py").open("a") as file:
        file.write(COUNT_HERE)
    text = (folder / path).read_text(encoding="utf-8")
    text = text.replace(CALLER, f"{CALLER}.f_back.f_back")
    (folder / path).write_text(text, encoding="utf-8")
    env = {**os.environ, "HELPERS_QUIET": "1"}
    # The tests must see the copy, wherever this checkout is on the path.
    paths = env.get("PYTHONPATH", "").split(os.pathsep)
    env["PYTHONPATH"] = os.pathsep.join(p for p in paths if p and Path(p) != ROOT)

    def mutmut(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mutmut", *words]
        piped = {"capture_output": True, "text": True}
        return subprocess.run(command, cwd=folder, env=env, **piped)

    def run(*names: str) -> dict[str, str]:
        """Try the mutants of these names; return what became of each."""
        done = mutmut("run", *names)
        noted = folder / "mutants" / f"{path}.meta"
        assert noted.exists(), done.stderr
        codes = json.loads(noted.read_text())["exit_code_by_key"]
        return {name: status_by_exit_code[code] for name, code in codes.items()}

    every = sorted(run("no such name"))  # the mutants are made, and none is tried
    drawn = random.sample(every, min(draw or len(every), len(every)))
    became = run(*drawn)
    count = Counter(became[name] for name in drawn)
    assert not count["not checked"], f"{tests} fails where nothing is changed"
    noticed = count["killed"] + count["timeout"] + count["segfault"]
    for name in drawn:
        if became[name] in ("survived", "no tests"):
            print("not noticed:", mutmut("show", name).stdout)
    return {
        "module": path,
        "tests": tests,
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
    first = {"module": "all of these", "tests": "", "mutants": tried}
    counts = {key: sum(row[key] for row in rows) for key in COUNTS}
    interval = f"{share - half:.0%} to {min(1.0, share + half):.0%}"
    return {**first, **counts, "share": f"{share:.0%} ({interval})"}


def main(arguments: list[str]) -> int:
    """Mutate each module that is named; return 1 when one could not be tried."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof mutants", description=__doc__.split("\n")[0]
    )
    parser.add_argument("module", nargs="+", help="stats, text, gpu.tidy, ... or all")
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
