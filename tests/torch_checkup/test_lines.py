"""Each line of a user's functions can run eagerly alone, and means what it meant."""

import importlib
import sys

import pytest
import torch

from torch_checkup.search import eagerly, lines_of

MINE = '''\
"""A docstring, and a constant: nothing to run."""
from __future__ import annotations
import contextlib
import functools
import torch


def decorated(fn):
    @functools.wraps(fn)
    def outer(*args):
        return fn(*args)
    return outer


class Base(torch.nn.Module):
    def forward(self, x):
        return x.sin()


class Model(Base):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        y: torch.Tensor = super().forward(x)
        y += x.cos()
        same = y
        """No line of its own."""
        return scaled(same) + super(Model, self).forward(x)


@decorated
def scaled(x):
    if x.dim() > 5:
        x = x.exp()
    else:
        x = x.tanh()
    n = 3
    while len(x) < 0:
        pass
    for i in range(2):
        x = x + i
    try:
        x = x.neg()
        raise ValueError(str(n))
    except ValueError:
        x = x.abs()
    finally:
        x = x.erf()
    with contextlib.nullcontext():
        x = x.exp2()
    if (z := x.sum()) is None:
        return z
    class Inner:
        a = x.sqrt()
    def inner():
        return x.rsqrt()
    return x * 2


def made(factor):
    def times(x):
        return x * factor
    return times


twice, thrice = made(2), made(3)


TABLE = {
    "sine": lambda x: x.sin(),  # no line of a function's own
}


def numbers(n):
    got = yield n * 2
    yield n * 3


def both(x):
    for i in numbers(len(x)):
        x = x + i
    return TABLE["sine"](twice(x)) + thrice(x)
'''
X = torch.linspace(0.1, 1, 4).reshape(2, 2)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "lines_mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("lines_mine")
    del sys.modules["lines_mine"]


@pytest.mark.parametrize(("call", "count"), [("Model", 15), ("both", 4)])
def test_a_line_means_what_it_meant_and_comes_back_as_it_was(call, count, mine):
    torch.manual_seed(0)
    run = mine.Model() if call == "Model" else getattr(mine, call)
    right, names = run(X), set(vars(mine))
    every = lines_of(lambda: run(X))
    assert len(every) == count
    codes = [function.__code__ for one in every for function in one.functions]
    for chosen in (*([one] for one in every), every):
        with eagerly(chosen):
            assert all(f.__code__ not in codes for f in chosen[0].functions)
            assert torch.equal(run(X), right)
        with pytest.raises(KeyError), eagerly(chosen):
            raise KeyError
    assert [f.__code__ for one in every for f in one.functions] == codes
    assert set(vars(mine)) == names
