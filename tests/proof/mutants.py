"""Change a module in one place, again and again, and count which changes tests see.

    python -m uv pip install --group proof      # mutmut, which makes the changes
    python -m tests.proof mutants helpers/stats.py torch_checkup/explain.py
    python -m tests.proof mutants --draw 12 helpers/s*.py  # 12 of each, drawn anew
    python -m tests.proof mutants --draw 12 all # of every module that has tests

A module is held against the tests that have its place and name: helpers/stats.py
against tests/helpers/test_stats.py; one without, against those that `TESTED_BY` names.
All of its mutants take minutes for a small module and hours for a large one.  Runs in a
copy of the checkout.

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

MODULES = ("helpers", "torch_checkup")
JUDGED = "tests/helpers/test_judge.py tests/helpers/test_correctness.py"
LOWERED = "tests/helpers/test_codegen.py tests/helpers/gpu/test_dump.py"
SANDBOX = "tests/torch_checkup/test_sandbox.py"
PARTS = "tests/torch_checkup/test_parts.py"
ADVICE = "tests/torch_checkup/test_advice.py tests/torch_checkup/test_options.py"
REPORT = "tests/torch_checkup/test_report.py tests/torch_checkup/test_command.py"
WHERE = "tests/torch_checkup/test_where.py tests/torch_checkup/test_lines.py"
TESTED_BY = {  # where several modules are tested through what they do together
    "helpers/codegen.py": LOWERED,
    "helpers/children.py": SANDBOX,
    "helpers/correctness.py": JUDGED,
    "helpers/differences.py": JUDGED,
    "helpers/errors.py": SANDBOX,
    "helpers/frames.py": "tests/helpers/test_capture.py",
    "helpers/gpu/interpreter_child.py": "tests/helpers/gpu/test_interpreter.py",
    "helpers/judge.py": JUDGED,
    "helpers/lazy.py": "tests/helpers/test_imports.py",
    "helpers/outcomes.py": JUDGED,
    "torch_checkup/__main__.py": "tests/torch_checkup/test_command.py",
    "torch_checkup/capture.py": ADVICE,
    "torch_checkup/gpu.py": PARTS,
    "torch_checkup/again.py": ADVICE,
    "torch_checkup/report.py": REPORT,
    "torch_checkup/search.py": WHERE,
    "torch_checkup/silent.py": ADVICE,
    "torch_checkup/speed.py": PARTS,
    "torch_checkup/traffic.py": PARTS,
}
SETTINGS = """

[tool.mutmut]
source_paths = ["{path}"]
also_copy = {everything}
pytest_add_cli_args_test_selection = {tests}
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


def mutmut_for(path: str, folder: Path) -> Callable[..., str]:
    """Copy the checkout to *folder*; return mutmut there: words to what it prints.

    Keywords are variables of its environment.
    """
    unwanted = shutil.ignore_patterns(".*", "mutants", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, ignore=unwanted, dirs_exist_ok=True)
    everything = [place.name for place in folder.iterdir()]
    with (folder / "pyproject.toml").open("a") as file:
        names = {"path": path, "everything": everything}
        file.write(SETTINGS.format(tests=tests_of(path).split(), **names))
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(folder / "mutants")}

    def mutmut(*words: str, **more: str) -> str:
        command = [sys.executable, "-m", "mutmut", *words]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run(command, cwd=folder, env=env | more, **piped).stdout

    return mutmut


def fails(path: str, folder: Path) -> bool:
    """Return whether a test of a module fails with the module as it is in *folder*."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests_of(path).split()]
    env = {**os.environ, "HELPERS_QUIET": "1", "PYTHONPATH": str(folder)}
    return bool(
        subprocess.run(command, cwd=folder, env=env, capture_output=True).returncode
    )


def mutate(path: str, folder: Path, draw: int | None) -> dict[str, Any]:
    """Return the row of a module, for which *draw* mutants are tried, or all.

    It works in *folder*, in a copy of the checkout.
    """
    for needed in (path, *tests_of(path).split()):
        if not (ROOT / needed).exists():
            raise FileNotFoundError(f"there is no {needed}")
    mutmut = mutmut_for(path, folder)
    # All mutants are made, and no test runs.
    said = mutmut("run", PYTEST_ADDOPTS="--collect-only")
    lines = mutmut("results", "--all", "true").splitlines()
    made = sorted(line.strip().split(": ")[0] for line in lines)
    assert made, said[-2000:]
    assert not fails(path, folder), "the tests fail with nothing changed"
    names = random.sample(made, min(draw or len(made), len(made)))
    file, survived = folder / path, 0
    source = file.read_text("utf-8")
    for name in names:
        said = mutmut("apply", name)
        assert file.read_text("utf-8") != source, said
        if not fails(path, folder):
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
    """Mutate each module that is named; return 1 when one could not be tried."""
    parser = command("tests.proof mutants", __doc__, "a module could not be tried")
    parser.add_argument("module", nargs="+", help="paths of modules, or all")
    parser.add_argument("--draw", type=int, help="so many of each, by chance")
    asked = parser.parse_args(arguments)
    failed, modules = 0, every_module()
    for path in modules if asked.module == ["all"] else asked.module:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            try:
                row = mutate(path, Path(folder), asked.draw)
            except (FileNotFoundError, AssertionError) as problem:
                failed += 1
                print(f"{path}: {problem}", flush=True)
                continue
        print(*row.values(), sep=" | ", flush=True)
        order = sorted({*modules, path})
        records.put("proofs/mutants", "module", row, order)
    return int(failed > 0)
