"""The process in which generated kernels run, as the parent sees it."""

from __future__ import annotations

import atexit
import functools
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import torch


def pack(value: Any) -> bytes:
    """Return *value*, made of tensors, numbers, texts, lists and dicts, as bytes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def unpack(data: bytes) -> Any:
    """Return what ``pack`` was given; nothing else is ever built from *data*."""
    return torch.load(io.BytesIO(data), weights_only=True)


_START_S = 120.0


@functools.cache
def interpreter() -> Interpreter:
    """Return this program's interpreter, the same each time.

    Starting takes seconds, most of them for importing torch; it ends with the program.
    """
    made = Interpreter()
    atexit.register(made.close)
    return made


class Interpreter:
    """One process for all graphs, and a new one after one that was lost.

    It ends when it was not asked for *idle_s* seconds, for it holds memory.
    """

    def __init__(self, idle_s: float = 300.0) -> None:
        self.idle_s = idle_s
        self.process: Any = None
        self.one_at_a_time = threading.Lock()

    def ask(
        self, order: dict[str, Any], limit_s: float
    ) -> tuple[list[Any], dict[str, Any], str]:
        """Return the launches that were started, the answer, and what went wrong.

        A process that does not answer within *limit_s*, or is interrupted, is ended.
        """
        with self.one_at_a_time:
            try:
                return self._ask(order, limit_s)
            except BaseException:  # an interrupt, too: its answer would come next time
                self.close()
                raise

    def _ask(
        self, order: dict[str, Any], limit_s: float
    ) -> tuple[list[Any], dict[str, Any], str]:
        started: list[Any] = []
        try:
            self.start()
            self._wait_until_ready()
            end = time.monotonic() + limit_s
            self.pipe.send_bytes(pack(order))
            while self.pipe.poll(max(0.0, end - time.monotonic())):
                said = unpack(self.pipe.recv_bytes())
                if "error" in said:
                    return started, said, said["error"]
                started.append(said)
            reason = f"stopped after {limit_s:g} s"
        except (EOFError, OSError):
            reason = self._obituary()
        self.close()
        return started, {}, reason

    def start(self) -> None:
        """Begin to start the process, if there is none; return without waiting."""
        if self.process is not None and self.process.poll() is None:
            return
        self.close()  # it was idle, or somebody ended it
        course, more = str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")
        path = os.pathsep.join([course, more] if more else [course])
        ours = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": path}
        self.pipe, theirs = Pipe()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        self.ready = False
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "helpers.gpu.interpret_child",
                str(theirs.fileno()),
                str(self.idle_s),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.said,
            env={**os.environ, **ours},
        )
        theirs.close()

    def _wait_until_ready(self) -> None:
        """Wait for the process to have imported all: that counts for no graph."""
        if not self.ready and self.pipe.poll(_START_S):
            self.pipe.recv_bytes()
            self.ready = True

    def _obituary(self) -> str:
        code = self.process.wait(10)
        if code < 0:
            return f"the interpreter crashed: {signal.Signals(-code).name}"
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").strip().splitlines()
        return f"the interpreter ended: {(lines or ['it said nothing'])[-1]}"

    def close(self) -> None:
        """End the process, if there is one."""
        process, self.process = self.process, None
        if process is not None:
            process.terminate()  # not killed: what traces it may write its notes
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.pipe.close()
            self.said.close()
