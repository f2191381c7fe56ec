"""What the lessons read from the logs of Inductor is never silently nothing."""

import pytest
import torch

from course import page_log
from course.ch11.fusion import ask, ask_h100
from course.lowering import decisions, log_of, loops


def double(x):
    return x * 2


@pytest.mark.parametrize(
    "asking",
    [
        lambda x: ask(double, x),
        lambda x: ask_h100(double, x),
        lambda x: log_of("fusion", double, x),
    ],
)
def test_nothing_is_compiled_for_a_log_that_nobody_keeps(asking, monkeypatch):
    monkeypatch.setattr(page_log, "_kept", False)
    with pytest.raises(RuntimeError, match=r"run the first cell, start\(...\)"):
        asking(torch.ones(4))


@pytest.mark.parametrize("read", [loops, decisions])
def test_a_log_of_something_else_is_refused(read):
    with pytest.raises(ValueError, match=r"log_of\('(ir_pre_)?fusion', ...\)"):
        read("[0/0] Recompiling function double")
