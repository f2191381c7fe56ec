"""torch's log on a page: in the order of what is printed, and the same in each run."""

import logging
import re
import sys

import pytest
import torch._logging._internal as torch_logs

from course import page_log as logs
from course.shell import Folder
from helpers.errors import Unavailable
from helpers.text import unmark
from tests.refresh import UNFIT, WARNING, python

PROGRAM = """
import re
import torch
from course.page_log import logged, on_the_page, only

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
only("hit config")
torch._dynamo.config.recompile_limit = 2
for rows in (1, 0):
    compiled(torch.randn(rows, 256), torch.ones(256))
"""


def test_the_log_stands_between_the_lines_that_are_printed():
    done = python(PROGRAM)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    where = [lines.index(f"rows: {rows}") for rows in (64, 32)]
    again = [n for n, line in enumerate(lines) if "Recompiling function scale" in line]
    assert len(again) == 1 and where[1] < again[0]
    assert lines[again[0]].startswith("[0/1] ")
    assert "hit config.recompile_limit (2)" in lines[-1]
    shown = unmark(done.stdout)
    assert not re.search(WARNING, shown, re.MULTILINE)
    assert not re.search(UNFIT["a memory address"], shown)
    assert not re.search(r"\b\d{9,}\b", shown)


def test_files_of_cells_and_of_packages_have_no_folders(capsys, monkeypatch):
    monkeypatch.setattr(logs, "_kept", True)
    record = logging.LogRecord("torch", 20, "x", 1, "", None, None)
    for message, shown in (
        ('File "/tmp/ipykernel_12/345.py", line 3', 'File "<cell>", line 3'),
        ("f (/tmp/ipykernel_12/345.py:1)", "f (<cell>:1)"),
        ("at /usr/lib/site-packages/torch/nn/x.py:7", "at torch/nn/x.py:7"),
        ("id 140260902994144", "id ⟨140260902994144⟩"),
        ("took 12.5 us", "took ⟨12.5 us⟩"),
        ("a constant 0.70710678118", "a constant 0.70710678118"),
        (
            "__compiled_fn_1_9c3ec86d_00d8_41d9_a233_5d2481c57d7f",
            "__compiled_fn_1_⟨9c3ec86d_00d8_41d9_a233_5d2481c57d7f⟩",
        ),
        (
            'User code traceback:\n  File "/x/ipykernel/app.py", line 7\n    run()\n'
            '  File "/tmp/ipykernel_12/345.py", line 3\n',
            'User code traceback:\n  File "<cell>", line 3\n',
        ),
    ):
        record.msg = message
        logs._lines.clear()
        logs._PageHandler().emit(record)
        assert logs.logged() == shown
        assert capsys.readouterr().out == f"{shown}\n"
    problem = ValueError, ValueError("of the compiler"), None
    for level, shown in ((40, "failed\nof the compiler"), (30, "failed")):
        told = logging.LogRecord("torch", level, "x", 1, "failed", None, problem)
        logs._PageHandler().emit(told)
        assert capsys.readouterr().out == f"{shown}\n"
    record.levelno = 40  # and no error with it
    logs._PageHandler().emit(record)
    assert logs.logged().count("failed\nof the compiler\nfailed\nUser code") == 1


def test_nothing_is_said_of_a_cuda_toolkit_without_a_gpu():
    find = "from torch.utils import cpp_extension as it\nit._find_cuda_home()\n"
    with Folder({"find.py": f"{find}it.logger.warning('but this')\n"}) as folder:
        said = folder.type("CUDA_VISIBLE_DEVICES= CUDA_HOME=/cuda python find.py")
    assert "but this" in said and "CUDA" not in said


def test_a_file_keeps_its_log_and_a_torch_without_one_is_named(monkeypatch):
    usual, log = [], logging.getLogger("course")
    monkeypatch.setattr(torch_logs, "_setup_handlers", lambda *told: usual.append(told))
    monkeypatch.setattr(torch_logs, "_init_logs", lambda: None)
    logs.on_the_page()
    torch_logs._setup_handlers(logging.FileHandler, log)
    assert usual == [(logging.FileHandler, log)]
    monkeypatch.setitem(sys.modules, "torch._logging._internal", None)
    with pytest.raises(Unavailable, match=r"loses: torch's log on a page\. "):
        logs.on_the_page()
