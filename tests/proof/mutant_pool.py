"""Copies of the course, each with a process that tries mutants in it."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Worker:
    """A copy of the course, and a process in it that answers jobs."""

    def __init__(self, folder: Path) -> None:
        copy_course(folder)
        env = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # a pool would outlive its fork
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # seconds, in each fork
            "COURSE_STRICT": "1",
            "COURSE_QUIET": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.proof.mutant_worker"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **job: Any) -> dict[str, Any]:
        """Return the answer to one job; see `tests.proof.mutant_worker`."""
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process; its copy is its owner's to delete."""
        self._process.stdin.close()
        self._process.wait()


def copy_course(folder: Path) -> None:
    """Copy all that the tests read to *folder*."""
    for name in ("helpers", "tests", "data", "notebooks"):
        skip = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    for path in [*ROOT.glob("*.py"), *ROOT.glob("*.t*")]:
        shutil.copy(path, folder)


class Pool:
    """Workers that share the jobs; each has its own copy of the course."""

    def __init__(self, folder: Path, size: int) -> None:
        self._idle: queue.Queue[Worker] = queue.Queue()
        self._threads = ThreadPoolExecutor(size)
        for number in range(size):
            self._idle.put(Worker(folder / str(number)))
        self.size, self.root = size, folder / "0"

    def submit(self, **job: Any) -> Future:
        """Return the future answer to a job."""
        return self._threads.submit(self._ask, job)

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        worker = self._idle.get()
        try:
            return worker.ask(**job)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Wait for the jobs, and end the workers."""
        self._threads.shutdown(cancel_futures=True)
        for _ in range(self.size):
            self._idle.get().close()


@contextmanager
def pool(size: int) -> Iterator[Pool]:
    """Yield workers on copies of the course as it is now."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        workers = Pool(Path(folder), size)
        try:
            yield workers
        finally:
            workers.close()
