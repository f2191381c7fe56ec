"""The processes in which generated kernels run, as the parent sees them."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
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


class Children(contextlib.AbstractContextManager):
    """One process for all graphs, and a new one after one that was lost."""

    def __init__(self, gpu: str, limit_s: float) -> None:
        self.gpu, self.limit_s = gpu, limit_s
        self.process: Any = None

    def ask(self, order: dict[str, Any]) -> tuple[list[Any], dict[str, Any], str]:
        """Return the launches that were started, the answer, and what went wrong."""
        started: list[Any] = []
        try:
            self._start()
            end = time.monotonic() + self.limit_s
            self.pipe.send_bytes(pack(order))
            while self.pipe.poll(max(0.0, end - time.monotonic())):
                said = unpack(self.pipe.recv_bytes())
                if "error" in said:
                    return started, said, said["error"]
                started.append(said)
            reason = f"stopped after {self.limit_s:g} s"
        except (EOFError, OSError):
            reason = self._obituary()
        self.close()
        return started, {}, reason

    def _start(self) -> None:
        if self.process is not None:
            return
        course, more = str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")
        path = os.pathsep.join([course, more] if more else [course])
        ours = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": path}
        self.pipe, theirs = Pipe()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "helpers.gpu.interpret_child",
                str(theirs.fileno()),
                self.gpu,
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.said,
            env={**os.environ, **ours},
        )
        theirs.close()
        if self.pipe.poll(_START_S):
            self.pipe.recv_bytes()  # it is ready: importing does not count

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

    def __exit__(self, *_: Any) -> None:
        self.close()
