"""Runs programs of errors.toml, one after the other, and keeps what each says.

    python -m tests.torch_checkup.errors_child NAME ... < errors.toml > texts.json

All run in one process: importing torch costs more than most of the programs.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import sys
import tempfile
import tomllib
import traceback
import warnings


def run(name: str, code: str, logs: list[str]) -> str:
    """Return what *code* writes to standard error, its exception included."""
    import torch

    torch._dynamo.reset()
    torch.compiler.config.force_disable_caches = True  # a warning comes once a compile
    torch._logging.set_logs(**dict.fromkeys(logs, True))
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    with tempfile.TemporaryFile("w+") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:  # the two settings that programs change are put back
            with (
                contextlib.redirect_stdout(file),
                torch._dynamo.config.patch(suppress_errors=False, disable=False),
            ):
                exec(compile(code, name, "exec"), {"__name__": "__main__"})
        except Exception:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read()


if __name__ == "__main__":
    warnings.simplefilter("always")
    entries = {e["name"]: e for e in tomllib.load(sys.stdin.buffer)["entry"]}
    texts = {
        name: [
            run(f"<{part}>", entries[name][part], entries[name].get("logs", []))
            for part in ("program", "twin")
        ]
        for name in sys.argv[1:]
    }
    json.dump(texts, sys.stdout)
