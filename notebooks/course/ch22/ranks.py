"""Two ranks, started by torchrun once, which run the scripts of a page.

    two = Ranks()         # torchrun, in a folder that has a copy of the example
    two.run("ddp.py")     # what its main(device) returns, of each rank

The ranks end with the kernel, when a script takes too long, and when one raises.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from helpers import children

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_two_ranks.py"
# Of each rank: one thread, and no test of the C++ compiler, which each would run anew.
VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    "PYTHONWARNINGS": "ignore",
    "KINETO_LOG_LEVEL": "99",
    "TORCH_DISTRIBUTED_DEBUG": "OFF",
}


class RankFailed(RuntimeError):
    """A rank raised, ended, or took too long; with what was said."""


class Ranks:
    """Processes that torchrun started, and that wait for scripts."""

    def __init__(self, number: int = 2) -> None:
        self.number, self.jobs = number, 0
        self._place = tempfile.TemporaryDirectory()
        self.folder = Path(self._place.name)
        shutil.copy(EXAMPLE, self.folder)
        self._said = (self.folder / "torchrun.txt").open("w+")
        self._torchrun = children.start(
            *f"-m torch.distributed.run --standalone --nproc-per-node {number}".split(),
            *f"--log-dir {self.folder}/logs --redirects 3 --module".split(),
            "course.ch22.rank",
            path=[str(self.folder)],
            env=VARIABLES,
            stdin=subprocess.PIPE,  # which closes with this process, even if killed
            stdout=self._said,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
        )
        self.stop = weakref.finalize(self, children.end, self._torchrun)

    def run(self, script: str, limit: float = 180) -> list[Any]:
        """Run a script of the folder on all ranks; return what main(device) gave.

        Raises RankFailed, and ends all ranks, where one of them raises or ends, or
        after *limit* seconds.
        """
        self.jobs += 1
        order = self.folder / f"{self.jobs}.json"
        order.with_suffix(".new").write_text(json.dumps({"script": script}))
        order.with_suffix(".new").rename(order)  # whole, or not there
        found = [
            self.folder / f"{self.jobs}-{rank}.json" for rank in range(self.number)
        ]
        deadline = time.monotonic() + limit
        while True:
            news = [json.loads(f.read_text()) for f in found if f.exists()]
            errors = [one["error"] for one in news if "error" in one]
            if errors or self._torchrun.poll() is not None:
                raise RankFailed(self._first(errors))
            if len(news) == self.number:
                return [one["found"] for one in news]
            if time.monotonic() > deadline:
                self.stop()
                raise RankFailed(f"stopped after {limit:g} seconds\n{self._words()}")
            time.sleep(0.02)

    def _first(self, errors: list[str]) -> str:
        """End all, and return the error of the rank that failed by itself."""
        lost = re.compile("Connection (closed|reset) by peer")  # of another rank
        own = [error for error in errors if not lost.search(error)]
        with suppress(subprocess.TimeoutExpired):
            self._torchrun.wait(0 if own else 30)  # it sees which one ended
        self.stop()
        return (own or [f"a rank ended\n{self._words()}"])[0]

    def _words(self) -> str:
        self._said.flush()
        files = [self.folder / "torchrun.txt", *self.folder.glob("logs/**/stderr.log")]
        return "\n".join(file.read_text(errors="replace") for file in files).strip()
