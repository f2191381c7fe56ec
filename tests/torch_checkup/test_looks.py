"""Where a program looks to see a difference, and what it asserts there."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import fx

from torch_checkup import looks
from torch_checkup.differences import Difference
from torch_checkup.looks import Look

DTYPE = Difference(1, "output", "dtype", "int8", "int64")
SAME = "compiled.dtype == eager.dtype, (compiled.dtype, eager.dtype)"


@pytest.mark.parametrize(
    ("place", "found", "train"),
    [
        ("output[0]", "out[0]", False),
        ("input w after the call", "given[1]", False),
        ("gradient of input w", "given[1].grad", True),
        ("gradient of x", "given[0].grad", True),
        ("input 1", "given[1]", False),
        ("buffer n", "", False),
        ("", "", False),
    ],
)
def test_a_place_of_a_piece_is_an_expression(place, found, train):
    piece = fx.symbolic_trace(lambda x, w: x @ w)
    look = Look(found, f"assert {SAME}", train) if found else None
    assert looks.of_piece(replace(DTYPE, place=place), piece, train) == look


@pytest.mark.parametrize(
    ("eager", "compiled", "ended", "look"),
    [
        ("runs", "E: no", "", Look("out", raises="E: no")),
        (
            *("runs", "SystemExit: 5", ""),
            Look("out", raises="SystemExit: 5", ends="status 5"),
        ),
        ("runs", "it died", "SIGSEGV", Look("out", raises="it died", ends="SIGSEGV")),
        ("E: no", "runs", "", Look("", "assert compiled == eager, (compiled, eager)")),
    ],
)
def test_what_is_raised_is_looked_at(eager, compiled, ended, look):
    found = Difference(1, "the call", "raises", eager, compiled, ended=ended)
    assert looks.raised(found) == look
    piece = fx.symbolic_trace(lambda x: x.sin())
    assert looks.of_piece(found, piece, train=True) == look
    backward = replace(found, place="the backward")
    assert looks.of_piece(backward, piece, train=True) == replace(look, train=True)


A, B = torch.tensor([1.0, 0.0]), torch.tensor([1.0, -0.0])
SHOWN = {  # of each kind of difference, two values that differ so
    "dtype": (A, A.int()),
    "shape": (A, A[:1]),
    "requires_grad": (A, A.clone().requires_grad_()),
    "stride": (torch.ones(2, 2), torch.ones(2, 2).t()),
    "values": (A, A + 1),
    "nan/inf": (A, A / 0),
    "missing": (A, None),
    "extra": (None, A),
    "type": ((1,), [1]),
    "identity": ([True], [False]),
    "alias": ([True], [False]),
    "sign of zero": (A, B),
}


@pytest.mark.parametrize("field", SHOWN)
def test_each_kind_of_difference_has_an_assertion_that_shows_it(field):
    eager, compiled = SHOWN[field]
    look = looks.seen_as(replace(DTYPE, field=field), "out", train=False)
    exec(look.check, {"torch": torch, "eager": eager, "compiled": eager})
    with pytest.raises(AssertionError):
        exec(look.check, {"torch": torch, "eager": eager, "compiled": compiled})


def test_what_is_shared_is_looked_for_among_inputs_and_outputs():
    x, other = torch.ones(2), torch.ones(2)
    scope = {"torch": torch, "given": (x, other), "out": (x, x.view(2), 3)}
    for field, same in (
        ("identity", [True, False, True, False, False]),
        ("alias", [True, False, True, True]),
    ):
        look = looks.seen_as(replace(DTYPE, field=field), "given[0]", train=False)
        assert eval(look.found, dict(scope)) == same
    assert looks.seen_as(replace(DTYPE, field="unheard of"), "out", False) is None


def f(x, mask=None):
    return x


@pytest.mark.parametrize(
    ("place", "expression"),
    [
        ("output['y']", "out['y']"),
        ("input x after the call", "call[0]"),
        ("gradient of input x", "call[0].grad"),
        ("input mask", 'call["mask"]'),
        ("gradient of a.weight", 'fn.get_parameter("a.weight").grad'),
        ("parameter a.weight after the call", 'fn.get_parameter("a.weight")'),
        ("buffer n after the call", 'fn.get_buffer("n")'),
        ("somewhere", ""),
    ],
)
def test_a_place_of_a_model_is_an_expression(place, expression):
    p = SimpleNamespace(fn=f, calls=[((torch.ones(2),), {"mask": 1})])
    assert looks.in_model(place, p) == expression


@pytest.mark.parametrize(
    ("off", "tolerance"),
    [((1e-8, 12.0), ""), ((1e-9, 4e-6), "atol=1e-06"), ((0.3, 9.0), "atol=2)")],
    ids=["torch's own", "a small one", "eager is off, too"],
)
def test_an_assertion_of_values_lets_rounding_pass(off, tolerance):
    both = dict(zip(("off_eager", "off_compiled"), off, strict=True))
    found = Difference(1, "output", "values", "1", "2", **both)
    assert tolerance in (check := looks.seen_as(found, "out", False).check)
    assert ("atol" in check) == bool(tolerance)
