"""Runs tests in forks of a process that has imported torch already.

Reads a job a line from standard input and answers each with a line of JSON:
``{"path", "text", "tests", "limit_s", "trace"}`` gives ``{"outcome", "by",
"seconds", "lines"}``.  It is started in a copy of the course, and writes *text*
to *path* there.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

PRELOAD = os.environ.get(
    "MUTANT_PRELOAD",
    "torch torch._dynamo torch._inductor.compile_fx numpy hypothesis matplotlib.pyplot",
)
UNFIT, MISUSED = 100, (4, 5)  # pytest: usage error, no tests


def main() -> None:
    """Answer jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in PRELOAD.split():
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job in a fork, and put the file back."""
    path = Path(job["path"])
    original = path.read_text(encoding="utf-8")
    path.write_text(job["text"], encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        try:
            outcome = _forked(job, report)
        finally:
            path.write_text(original, encoding="utf-8")
        found = json.loads(report.read_text()) if report.exists() else {}
    return {"by": "", "seconds": {}, "lines": {}, **found, "outcome": outcome}


def _forked(job: dict[str, Any], report: Path) -> str:
    """Return ``survived``, ``killed``, ``timeout``, ``unfit`` or ``misused``."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os._exit(_test(job, report))
    end = time.monotonic() + job["limit_s"]
    done, status = os.waitpid(child, os.WNOHANG)
    while not done and time.monotonic() < end:
        time.sleep(0.02)
        done, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and what the tests left running
    if not done:
        os.waitpid(child, 0)
        return "timeout"
    code = os.waitstatus_to_exitcode(status)
    names = {0: "survived", UNFIT: "unfit"} | dict.fromkeys(MISUSED, "misused")
    return names.get(code, "killed")


def _test(job: dict[str, Any], report: Path) -> int:
    """Run the tests, stopping at the first that fails, unless they are traced."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.path[0] = os.getcwd()
    noticed = _Notes(job["trace"])
    try:
        importlib.import_module(job["path"].removesuffix(".py").replace("/", "."))
    except BaseException:
        return UNFIT  # who cannot even be imported tells no lies
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore"]
    if not job["trace"]:
        options.append("-x")
    code = pytest.main([*options, *job["tests"]], plugins=[noticed])
    report.write_text(json.dumps(noticed.found()))
    return int(code)


class _Notes:
    """Which test failed, how long each took and, if traced, what each ran."""

    def __init__(self, trace: bool) -> None:
        self.by, self.seconds, self.failed = "", {}, set()
        self.tracer = None
        if trace:
            import coverage

            self.tracer = coverage.Coverage(
                data_file=None, config_file=False, include=["*/helpers/*"]
            )
            self.tracer.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        if self.tracer:
            self.tracer.switch_context(item.nodeid)
        yield

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.by = self.by or report.nodeid
            self.failed.add(report.nodeid)
        took = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.seconds[report.nodeid] = took

    def found(self) -> dict[str, Any]:
        """Return what is sent back; a test that failed has no seconds."""
        seconds = {k: s for k, s in self.seconds.items() if k not in self.failed}
        return {"by": self.by, "seconds": seconds, "lines": self._lines()}

    def _lines(self) -> dict[str, dict[str, list[int]]]:
        """Return {file: {test: lines}}; lines run at import belong to no test."""
        if self.tracer is None:
            return {}
        self.tracer.stop()
        data, here = self.tracer.get_data(), Path.cwd()
        lines: dict[str, dict[str, list[int]]] = {}
        for file in data.measured_files():
            of_file = lines.setdefault(str(Path(file).relative_to(here)), {})
            for line, tests in data.contexts_by_lineno(file).items():
                for test in filter(None, tests):
                    of_file.setdefault(test, []).append(line)
        return lines


if __name__ == "__main__":
    main()
