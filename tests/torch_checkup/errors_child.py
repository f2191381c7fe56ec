"""Runs programs of errors.toml, one after the other, and keeps what each says.

    python -m tests.torch_checkup.errors_child NAME ... < errors.toml > texts.json

All run in one process: importing torch costs more than most of the programs.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import sys
import tomllib
import traceback
import warnings

import torch


def run(name: str, code: str, logs: list[str]) -> str:
    """Return what *code* writes to standard error, its exception included."""
    torch._dynamo.reset()
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        # The two settings that programs change are put back.
        torch._dynamo.config.patch(suppress_errors=False, disable=False),
    ):
        torch._logging.set_logs(**dict.fromkeys(logs, True))  # to this stderr
        try:
            exec(compile(code, name, "exec"), {"__name__": "__main__"})
        except Exception:
            traceback.print_exc()
    return said.getvalue()


if __name__ == "__main__":
    warnings.simplefilter("always")
    torch.compiler.config.force_disable_caches = True  # a warning comes once a compile
    entries = {e["name"]: e for e in tomllib.load(sys.stdin.buffer)["entry"]}
    texts = {
        name: [
            run(f"<{part}>", entries[name][part], entries[name].get("logs", []))
            for part in ("program", "twin")
        ]
        for name in sys.argv[1:]
    }
    json.dump(texts, sys.stdout)
