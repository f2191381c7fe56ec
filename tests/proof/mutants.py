"""Change a module in one place, again and again, and count which changes tests see.

    python -m uv pip install --group proof      # mutmut, which makes the changes
    python -m tests.proof mutants helpers/stats.py torch_checkup/explain.py
    python -m tests.proof mutants --draw 12 helpers/s*.py  # 12 of each, drawn anew
    python -m tests.proof mutants --draw 12 all # of every module that has tests

A module is held against the tests that have its place and name: helpers/stats.py
against tests/helpers/test_stats.py; one without, against those that `TESTED_BY` names.
All of its mutants take minutes for a small module and hours for a large one.  The last
row adds up what was tried, each module by its size, with a 95 % interval.  Runs in a
copy of the checkout.

A process that a test starts runs the changed module too, but cannot help to count which
tests run a function: mutmut's settings are not where it runs.  And a module that is
such a process (..._child.py) is `__main__` there, where mutmut's switch is not seen.
So each of its mutants, and of functions that no test was seen to run, is written into
the file, and all of its tests run.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import NormalDist
from typing import Any

from tests.proof import common
from tests.refresh import ROOT
from tools.commands import command

MODULES = ("helpers", "torch_checkup")
JUDGED = "tests/helpers/test_judge.py tests/helpers/test_correctness.py"
LOWERED = "tests/helpers/test_codegen.py tests/helpers/gpu/test_dump.py"
SANDBOX = "tests/torch_checkup/test_sandbox.py"
PARTS = "tests/torch_checkup/test_parts.py"
ADVICE = "tests/torch_checkup/test_advice.py tests/torch_checkup/test_options.py"
REPORT = "tests/torch_checkup/test_report.py tests/torch_checkup/test_command.py"
TESTED_BY = {  # where several modules are tested through what they do together
    "helpers/codegen.py": LOWERED,
    "helpers/children.py": SANDBOX,
    "helpers/correctness.py": JUDGED,
    "helpers/differences.py": JUDGED,
    "helpers/errors.py": SANDBOX,
    "helpers/gpu/interpreter_child.py": "tests/helpers/gpu/test_interpreter.py",
    "helpers/judge.py": JUDGED,
    "helpers/lazy.py": "tests/helpers/test_imports.py",
    "helpers/outcomes.py": JUDGED,
    "torch_checkup/__main__.py": "tests/torch_checkup/test_command.py",
    "torch_checkup/capture.py": ADVICE,
    "torch_checkup/gpu.py": PARTS,
    "torch_checkup/page.py": REPORT,
    "torch_checkup/recompiles.py": ADVICE,
    "torch_checkup/report.py": REPORT,
    "torch_checkup/search.py": "tests/torch_checkup/test_where.py",
    "torch_checkup/silent.py": ADVICE,
    "torch_checkup/speed.py": PARTS,
    "torch_checkup/traffic.py": PARTS,
}
COUNTS = ("noticed", "survived")
# torch has threads: a worker is forked from a process that imported it and ran nothing.
SETTINGS = """

[tool.mutmut]
source_paths = {paths}
also_copy = {everything}
pytest_add_cli_args_test_selection = {tests}
process_isolation = "forkserver"
"""
COUNT_HERE = """

@pytest.fixture(autouse=True)
def processes_count_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("MUTANT_UNDER_TEST") == "stats":
        monkeypatch.delenv("MUTANT_UNDER_TEST")
"""


def tests_of(path: str) -> str:
    """Return the file of a module's tests: that of its place and name, or others."""
    module = Path(path)
    return TESTED_BY.get(path) or f"tests/{module.parent}/test_{module.stem}.py"


def every_module() -> list[str]:
    """Return the paths of the modules that have tests."""
    found = [path for name in MODULES for path in (ROOT / name).rglob("*.py")]
    paths = sorted(path.relative_to(ROOT).as_posix() for path in found)
    return [path for path in paths if (ROOT / tests_of(path).split()[0]).exists()]


def mutmut_for(paths: list[str], folder: Path) -> Callable[..., str]:
    """Copy the checkout to *folder*; return mutmut there: words to what it prints.

    Keywords are variables of its environment.
    """
    unwanted = shutil.ignore_patterns(".*", "mutants", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=unwanted, dirs_exist_ok=True)
    names = {"everything": [p.name for p in folder.iterdir()], "paths": paths}
    with (folder / "pyproject.toml").open("a") as file:
        file.write(SETTINGS.format(tests=tests_of(paths[0]).split(), **names))
    with (folder / "tests" / "conftest.py").open("a") as file:
        file.write(COUNT_HERE)
    # All processes must import the changed module, wherever the checkout is installed.
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(folder / "mutants")}

    def mutmut(*words: str, **more: str) -> str:
        command = [sys.executable, "-m", "mutmut", *words]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run(command, cwd=folder, env=env | more, **piped).stdout

    return mutmut


def same(difference: str) -> bool:
    """Return whether a survivor is the same program: it only writes UTF-8, or it leaves
    out what ``strict=`` of zip would say where lengths differ, and they do not."""
    alike = re.sub(r",(?: ?strict=\w+)?(?= ?\))", "", difference.lower())
    before, after = (
        [
            line[1:].replace(" )", ")")
            for line in alike.splitlines()
            if re.match(sign, line)
        ]
        for sign in (r"-(?!--)", r"\+(?!\+\+)")
    )
    return before == after


def tested(path: str, folder: Path) -> int:
    """Return pytest's status for a module as it stands in *folder*."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests_of(path).split()]
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True).returncode


def written(
    path: str, names: list[str], folder: Path, mutmut: Callable[..., str]
) -> dict[str, str]:
    """Return what becomes of mutants, each written into the file of its module."""
    file, became = folder / path, {}
    source = file.read_text("utf-8")
    assert tested(path, folder) == 0, "the tests fail with nothing changed"
    for name in names:
        said = mutmut("apply", name)
        assert file.read_text("utf-8") != source, said
        became[name] = "killed" if tested(path, folder) else "survived"
        file.write_text(source, "utf-8")
    return became


def mutate(
    paths: list[str], folder: Path, draw: int | None, jobs: int | None = None
) -> list[dict[str, Any]]:
    """Try *draw* mutants of each module, or all; return a row for each.

    They have the same tests.  It works in *folder*, in a copy of the checkout, with
    *jobs* mutants at a time.
    """
    for needed in (*paths, *tests_of(paths[0]).split()):
        if not (ROOT / needed).exists():
            raise FileNotFoundError(f"there is no {needed}")
    mutmut = mutmut_for(paths, folder)

    def results() -> dict[str, str]:
        lines = mutmut("results", "--all", "true").splitlines()
        return dict(line.strip().split(": ") for line in lines)

    # All mutants are made, and no test runs.
    said = mutmut("run", PYTEST_ADDOPTS="--collect-only")
    made = sorted(results())
    every = {path: [n for n in made if n.startswith(dotted(path))] for path in paths}
    drawn = {
        path: random.sample(names, min(draw or len(names), len(names)))
        for path, names in every.items()
    }
    assert all(drawn.values()), said[-2000:]
    by_switch = [n for p in paths for n in drawn[p] if not p.endswith("_child.py")]
    workers = ("--max-children", str(jobs)) if jobs else ()
    said = mutmut("run", *workers, *by_switch) if by_switch else said
    became = results()
    for path in paths:
        child = path.endswith("_child.py")
        names = [n for n in drawn[path] if child or became[n] == "no tests"]
        became |= written(path, names, folder, mutmut) if names else {}
    for names in drawn.values():
        for name in [n for n in names if became[n] == "survived"]:
            shown = mutmut("show", name)
            if same(shown):
                names.remove(name)
            else:
                print("not noticed:", shown)
    counts = {path: Counter(became[n] for n in names) for path, names in drawn.items()}
    assert not any(count["not checked"] for count in counts.values()), said[-2000:]
    return [row(path, count, len(every[path])) for path, count in counts.items()]


def dotted(path: str) -> str:
    """Return how the names of a module's mutants begin."""
    return path.removesuffix(".py").replace("/", ".") + ".x"


def row(path: str, count: Counter[str], every: int) -> dict[str, Any]:
    """Return what is recorded of a module, by what became of its mutants."""
    noticed = count["killed"] + count["timeout"] + count["segfault"]
    return {
        "module": path,
        "mutants": f"{count.total()} of {every}",
        "noticed": noticed,
        "survived": count["survived"],
        "share": f"{noticed / max(1, count.total()):.0%}",
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
    parser.add_argument("--jobs", type=int, help="mutants at a time; one a core")
    asked = parser.parse_args(arguments)
    failed, in_order = 0, []
    modules = every_module() if asked.module == ["all"] else asked.module
    for tests, group in groupby(sorted(modules, key=tests_of), key=tests_of):
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            try:
                found = mutate([*group], Path(folder), asked.draw, asked.jobs)
            except (FileNotFoundError, AssertionError) as problem:
                failed += 1
                print(f"{tests}: {problem}", flush=True)
                continue
        for one in found:
            print(*one.values(), sep=" | ", flush=True)
        rows = common.kept("mutants", "module") | {one["module"]: one for one in found}
        in_order = [rows[name] for name in sorted(rows) if (ROOT / name).exists()]
        common.record("mutants", [*in_order, total(in_order)])
    if in_order:
        print(*total(in_order).values(), sep=" | ", flush=True)
    return int(failed > 0)
