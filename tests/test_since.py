"""The table of what works since when: its judge can fail, its rows are what they say.

`python -m tests.proof since` runs all rows, on several versions of torch.
"""

import sys
from argparse import Namespace
from pathlib import Path

import pytest

from tests.proof import since

SINE = "def forward(x):\n    return x.sin() + 1\n\n"
MADE = "def make():\n    return forward, (torch.ones(3),)\n"
SIDES = "def eager():\n    return torch.ones(3)\n\ndef compiled():\n    return {}\n"
LATER = """
gain = [2.0]

def forward(x):
    return x * read()

@torch.compiler.assume_constant_result
def read():
    return gain[0]

def make():
    return forward, [(torch.ones(3),)]

def change():
    gain[0] = 3.0
"""
PROGRAMS = {  # what has to be said of each
    "one graph": SINE + MADE,
    "a break": SINE.replace("x.sin()", "x.sin().sum().item()") + MADE,
    "no graph": f"torch._dynamo.config.disable = True\n{SINE}{MADE}",
    "wrong": SIDES.format("torch.ones(3) * 1.01"),
    "works": SIDES.format("torch.ones(3)"),
    "raises": SIDES.format("torch.ones(3)[5]"),
    "stale": LATER,
    "dies": SIDES.format("__import__('os').kill(__import__('os').getpid(), 9)"),
    "no program": SINE.replace("sin", "sine") + MADE,
    "not done": SIDES.format("__import__('time').sleep(900)"),
    "not there": f"# torch.no_such_thing\n{SINE}{MADE}",
}
NEEDS = {"not there": "torch.no_such_thing", "raises": "torch.ones"}


@pytest.fixture(scope="module")
def cells():
    rows = [
        since._row(name, "Python code", program, "05", NEEDS.get(name, ""))
        for name, program in PROGRAMS.items()
    ]
    wanted = [one | {"cells": {}} for one in rows]
    asked = Namespace(jobs=2, seconds=60, again=False)
    _, *found = since.ran(Path(sys.executable), wanted, asked)
    return dict(found)


@pytest.mark.weekly
@pytest.mark.parametrize("verdict", PROGRAMS)
def test_each_verdict_is_reached(cells, verdict):
    assert cells[verdict][0] == verdict, cells[verdict]


@pytest.mark.weekly
def test_a_cell_says_why(cells):
    assert cells["a break"][1].startswith("GB")
    assert cells["raises"][1].startswith("IndexError")
    assert "1.01" in cells["wrong"][1]
    assert cells["dies"][1] == "SIGKILL"
    assert "sine" in cells["no program"][1]


def test_the_rows_are_what_they_say():
    rows = since.rows()
    names = [one["name"] for one in rows]
    assert len({*names}) == len(names)
    assert {*since.OWN["names"].values()} <= {*names}
    for one in rows:
        compile(one["program"], one["name"], "exec")
