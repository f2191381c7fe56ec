"""The test that lesson 18 gives away takes functions as people write them."""

from importlib.util import module_from_spec, spec_from_file_location

import pytest
import torch
from torch.nn import functional as F

from course.planted import planted
from tests.course.test_exercises import ROOT

NAN = torch.nan


def _counted(x):
    rows = torch.arange(5) // 2
    return torch.zeros(3, 4).index_add_(0, rows, x)  # of the default dtype


ORDINARY = {
    "NaN": (torch.maximum, lambda: (torch.tensor([NAN, 1, 2]), torch.ones(3))),
    "a dict with None": (
        lambda x: {"a": x.sin(), "b": None},
        lambda: (torch.randn(7),),
    ),
    "integers alone": (lambda i: i * 7 // 3, lambda: (torch.arange(-9, 9),)),
    "a Python number": (torch.mul, lambda: (torch.randn(7), 3)),
    "a nest": (
        lambda xs: xs[0] @ xs[1],
        lambda: ([torch.randn(5, 7), torch.randn(7)],),
    ),
    "an unused input": (lambda x, y: x.sin(), lambda: (torch.randn(7), torch.randn(3))),
    "an empty tensor": (lambda x: x.sin(), lambda: (torch.randn(0, 3),)),
    "bfloat16": (lambda x: x.exp() / 3, lambda: (torch.randn(33).bfloat16(),)),
    "a buffer of its own": (_counted, lambda: (torch.randn(5, 4),)),
    "dropout": (lambda x: F.dropout(x.sin()), lambda: (torch.randn(33),)),
    "a module": (
        torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5)),
        lambda: (torch.randn(9, 7),),
    ),
    "a changed input": (lambda x: x.mul_(2).sin(), lambda: (torch.randn(7),)),
}


@pytest.fixture
def kept():
    """The module that a reader copies."""
    file = ROOT / "notebooks" / "examples" / "test_my_operators.py"
    spec = spec_from_file_location("test_my_operators", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILT = ("NaN", "dropout")  # the others need no C++ to be handled


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_functions_pass(name, kept, monkeypatch):
    kept.PROGRAMS = ORDINARY
    if name not in BUILT:
        ahead = torch._dynamo.lookup_backend("aot_eager")
        monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda _: ahead)
    with torch._inductor.config.patch(fallback_random=name == "dropout"):
        kept.test_compiled_is_right(name, dynamic=name == "a module")


@pytest.mark.parametrize(
    ("bug", "name", "what"),
    [
        ("maximum forgets NaN", "NaN", "output 0"),
        ("gelu's gradient", "a module with gelu", "gradient 0"),
    ],
)
def test_a_planted_bug_is_named(bug, name, what, kept):
    steep = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.GELU())
    module = {"a module with gelu": (steep, lambda: (torch.randn(3, 7),))}
    kept.PROGRAMS = kept.PROGRAMS | ORDINARY | module
    told = pytest.raises(AssertionError, match=f"{name}: {what} is wrong")
    with planted(bug), told:
        kept.test_compiled_is_right(name, dynamic=False)


def test_what_is_off_is_wrong(kept):
    """Each kind of result, and what a broken compiler may make of it."""
    exact = torch.tensor([NAN, -torch.inf, 1.0, 2.0], dtype=torch.float64)
    usual = exact.float()
    assert kept.as_near(exact, usual, usual * 1)
    for ours in (
        usual.nan_to_num(),
        torch.tensor([NAN, torch.inf, 1, 2]),
        torch.tensor([NAN, -torch.inf, 1, 2.001]),
        torch.tensor([NAN, -torch.inf, 1, NAN]),
        usual.double(),
        usual[:, None],
        None,
    ):
        assert not kept.as_near(exact, usual, ours)
    whole = torch.tensor([1, 2])
    assert kept.as_near(whole, whole, whole + 0)
    assert not kept.as_near(whole, whole, whole + 1)
    assert kept.as_near(3, 3, 3) and not kept.as_near(3, 3, 4)
    assert not kept.as_near(None, None, usual)
