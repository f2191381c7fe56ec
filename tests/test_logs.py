"""torch's log on a page: in the order of what is printed, and the same in each run."""

from __future__ import annotations

import re
import subprocess
import sys

from helpers.text import unmark
from tests.refresh import UNFIT, WARNING

PROGRAM = """
import re
import torch
from helpers.logs import logged, on_the_page

on_the_page()
on_the_page()  # a first cell that is run again

def scale(x, gain):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain

compiled = torch.compile(scale, backend="eager")
torch._logging.set_logs(recompiles=True, guards=True)
for rows in (64, 32):
    print("rows:", rows)
    compiled(torch.randn(rows, 256), torch.ones(256))
assert "expected 64, actual 32" in logged()
torch._logging.set_logs()
assert not logged()
torch._dynamo.config.recompile_limit = 2
for rows in (1, 0):
    compiled(torch.randn(rows, 256), torch.ones(256))
"""


def test_the_log_stands_between_the_lines_that_are_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    where = [lines.index(f"rows: {rows}") for rows in (64, 32)]
    again = [n for n, line in enumerate(lines) if "Recompiling function scale" in line]
    assert len(again) == 1 and where[1] < again[0]
    assert lines[again[0]].startswith("[0/1] ")
    assert sum("hit config.recompile_limit (2)" in line for line in lines) == 1

    shown = unmark(done.stdout)
    assert not re.search(WARNING, shown, re.MULTILINE)
    assert not re.search(UNFIT["a memory address"], shown)
    assert not re.search(r"\b\d{9,}\b", shown)
