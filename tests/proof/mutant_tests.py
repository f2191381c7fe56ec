"""Which tests a mutant gets: those that run its function, the quickest first."""

from __future__ import annotations

import ast
import difflib
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.proof.mutant_pool import Pool

SECONDS = 30  # of tests for a mutant
UNCHANGED = "helpers/__init__.py"


@dataclass(frozen=True)
class Mutant:
    """A module with one lie in it: the line of the lie, and the whole text."""

    line: int
    text: str

    def diff(self, original: str) -> str:
        """Return the lines that differ, with nothing round them."""
        lines = difflib.unified_diff(
            original.splitlines(), self.text.splitlines(), lineterm="", n=0
        )
        return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


class Baseline:
    """What the tests of a file do on the unchanged helpers, looked at once."""

    def __init__(self, workers: Pool) -> None:
        self._workers = workers
        self._alone = defaultdict(threading.Lock)
        self._seen: dict[str, dict[str, Any]] = {}

    def of(self, file: str) -> dict[str, Any]:
        """Return ``seconds`` of each test that passes, and ``lines`` that it runs."""
        with self._alone[file]:
            if file not in self._seen:
                self._seen[file] = self._look(file)
            return self._seen[file]

    def _look(self, file: str) -> dict[str, Any]:
        # Twice: traced, and then in the way that the mutants are tried.
        seen, tests = self._run([file], trace=True), None
        while tests != {*seen["seconds"]}:
            tests = {*seen["seconds"]}
            again = self._run([*seen["seconds"]])
            if again["outcome"] != "survived":
                print(f"fails unchanged, not used: {again['by']}", flush=True)
                del seen["seconds"][again["by"]]
        return seen

    def _run(self, tests: list[str], trace: bool = False) -> dict[str, Any]:
        text = (self._workers.root / UNCHANGED).read_text(encoding="utf-8")
        job = {"path": UNCHANGED, "text": text, "tests": tests, "limit_s": 1200}
        return self._workers.submit(**job, trace=trace).result()


class Module:
    """A module of the helpers, its tests, and which of its lines each test runs."""

    def __init__(
        self, name: str, root: Path, tests: list[str], baseline: Baseline
    ) -> None:
        self.name = name
        self.path = f"helpers/{name.replace('.', '/')}.py"
        self.source = (root / self.path).read_text(encoding="utf-8")
        self.tests = [_path(test) for test in tests]
        files = sorted({test.partition("::")[0] for test in self.tests})
        self.texts = [(root / file).read_text(encoding="utf-8") for file in files]
        self._baseline = baseline
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, set[int]] = {}

    def look(self) -> None:
        """Learn how long each test takes, and which lines it runs."""
        for file in self.tests:
            seen = self._baseline.of(file)
            self.seconds |= seen["seconds"]
            for test, lines in seen["lines"].get(self.path, {}).items():
                self.lines[test] = set(lines)

    def job(self, mutant: Mutant) -> dict[str, Any]:
        """Return what a worker needs to try a mutant."""
        tests, total = [], 0.0
        for test in self.chosen(mutant.line):
            total += self.seconds[test]
            if tests and total > SECONDS:
                break
            tests.append(test)
        job = {"path": self.path, "text": mutant.text, "tests": tests, "trace": False}
        return {**job, "limit_s": 30 + 5 * min(total, 2 * SECONDS)}

    def chosen(self, line: int) -> list[str]:
        """Return the tests that run the function of a line, or all, quickest first."""
        first, last = _function(self.source, line)
        near = set(range(first, last + 1))
        tests = [t for t in self.seconds if self.lines.get(t, set()) & near]
        tests = tests or list(self.seconds)
        return sorted(
            tests, key=lambda t: (line not in self.lines.get(t, ()), self.seconds[t])
        )


def _path(test: str) -> str:
    """Return ``tests/test_x.py::test_y`` for ``x::test_y``."""
    file, *name = test.split("::")
    return "::".join([f"tests/test_{file}.py", *name])


def _function(source: str, line: int) -> tuple[int, int]:
    """Return the lines of the innermost function round a line, without its head."""
    spans = [
        (node.body[0].lineno, node.end_lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(spans, default=(line, line))
