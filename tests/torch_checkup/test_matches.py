"""The part ``matches`` says in words what was judged, and asks for what may fix it."""

import pytest
import torch

from tests.helpers.test_judge import fresh, on_first
from tests.torch_checkup.test_model import Given
from torch_checkup import matches
from torch_checkup.helpers.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")
X, LONGER = torch.linspace(0.5, 2, 3), torch.linspace(0.5, 2, 4)


@pytest.fixture
def answered(monkeypatch):
    """A function that judges a model without kernels; what it asks for is `asked`."""
    monkeypatch.setattr(
        matches, "_right", lambda p, **how: asked.append(how) or right[0]
    )
    asked, right = [], [None]

    def look(model, *calls, fixed=None, backend="eager"):
        right[0] = fixed
        asked.clear()
        p = model if isinstance(model, Given) else Given(fresh(model), *calls)
        p.compiled = lambda **_: Given.compiled(p, backend=backend)
        p.try_out()
        found = matches.part(p)
        return found, [row[:2] for row in found.evidence[0].rows]

    look.asked = asked
    return look


def test_the_calls_that_differ_are_named_with_the_first_difference(answered):
    def only_three(x, compiled):
        return x * 2 if len(x) > 3 else x * (3 if compiled else 2)

    found, words = answered(only_three, (LONGER,), (X,))
    assert found.verdict == "bad" and found.counts == {"matches": False}
    first = found.differences[0].short
    assert found.says == f"compiled answers are not eager's: {first}"
    assert first == "call 2, output, values: eager ⟨4 at [2]⟩, compiled ⟨6⟩"
    assert words == [("1", "agree"), ("2", "DIFFER")]
    assert found.advice == (matches.BISECT,) and answered.asked == []


@on_first
def raising(y):
    """A stage that raises for three numbers, and is wrong for five."""
    if len(y) == 3:
        raise ValueError("no three")
    return y + (len(y) == 5)


def doubles(x, compiled):
    return x * 2


def test_what_raises_only_when_compiled_is_tried_with_fixed_sizes(answered):
    found, words = answered(doubles, (LONGER,), (X,), (torch.rand(5),), backend=raising)
    assert words == [("1", "agree"), ("2", "RAISES"), ("3", "DIFFER")]
    assert found.says.startswith(
        "compiled answers fail, where eager's come, and are not eager's: call 2, the "
        "call, raises: eager runs, compiled ValueError: no th"
    )
    assert answered.asked == [{"dynamic": False}] and found.advice == (matches.BISECT,)
    found, _ = answered(doubles, (LONGER,), (X,), fixed=True, backend=raising)
    [advice] = found.advice
    assert advice.startswith("torch.compile(model, dynamic=False): eager's answers")
    found, _ = answered(doubles, (X,), backend=raising)
    assert found.says.startswith("compiled answers fail, where eager's come: call 1")


@pytest.mark.parametrize("fixed", [True, None])
def test_half_precision_is_tried_with_eagers_roundings(fixed, answered):
    found, _ = answered(lambda x, c: x * (3 if c else 2), (X.half(),), fixed=fixed)
    assert answered.asked == [{"options": {"emulate_precision_casts": True}}]
    [advice] = found.advice
    assert ("emulate_precision_casts" in advice) == bool(fixed)
    assert (advice == matches.BISECT) != bool(fixed)


def both_raise(x, compiled):
    if len(x) == 3:
        raise ValueError("no three")
    return x * 2


def test_a_call_that_raises_on_both_sides_is_told(answered):
    found, words = answered(both_raise, (LONGER,), (X,))
    assert found.verdict == "good"
    assert words == [("1", "agree"), ("2", "both raise")]
    assert found.evidence[-1] == "inputs 2: eager raises ValueError: no three"
    p = Given(fresh(both_raise), (X,))
    p.try_out = lambda: setattr(p, "fails", {0: ValueError("no three")})
    with pytest.raises(
        InputError, match=r"^both sides raise in every call: ValueError: "
    ):
        answered(p)


def test_without_a_compiler_nothing_is_judged(answered, monkeypatch):
    monkeypatch.setattr(matches, "cpp_compiler", lambda: ("", "no g++"))
    with pytest.raises(
        InputError, match=r"^Inductor found no C\+\+ compiler \(no g\+\+"
    ):
        answered(doubles, (X,), backend=raising)
    answered(doubles, (X,), (LONGER,), backend=raising)  # some of it compiles
