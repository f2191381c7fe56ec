"""Options and what they bring, without a model to compile."""

from types import SimpleNamespace

import pytest
import torch

from torch_checkup import again, options
from torch_checkup.helpers.capture import Call, Guard, Recompiles
from torch_checkup.options import Option, Versions

# ---------------------------------------------------------------- what compiles again


GUARDS = {  # torch's words of guards that no program of the tests fails, and ours
    "L['a'].size()[0] == L['b'].size()[1]": (
        "sizes of a and b were equal by chance in the first call"
    ),
    "2 <= L['x'].size()[0]": "a size of x is outside of what was compiled",
    "a is b": "one tensor is given twice in some calls",
    "expected type of 'pad' to be a tensor type, ' but found <class 'NoneType'>": (
        "pad is given in some calls, None in others"
    ),
    "expected type of 'pad' to be <class 'torch.Tensor'>, but found <class 'list'>": (
        "pad is of a different class"
    ),
    "tensor 'x' dispatch key set mismatch. expected A, actual B": (
        "x is another kind of tensor, such as one made in inference mode"
    ),
    "KeyError on batch['mask']": (
        "batch['mask'] is a key in some calls, and missing in others"
    ),
    "___check_obj_id(key, 7)": "key is a different object",
}


@pytest.mark.parametrize("test", GUARDS)
def test_a_guard_is_told_in_the_names_of_the_users_code(test):
    guard = Guard(test, "line 4 of mine.py, in f: if n:", "n = x.item()")
    [found] = again.findings([guard, Guard(test, "another line", "n = x.item()")])
    assert found.words == GUARDS[test]
    both = " (line 4 of mine.py, in f: if n; another line)"
    assert (found.guard, found.place) == (guard, both)


PLACE = "line 4 of mine.py, in f: y = g(x)"


def tried(counts, guards):
    failed = tuple(Guard(test, PLACE) for test in guards)
    found = tuple(Call(number, (), (), failed) for number in counts)
    order = {"timeout": 300.0}
    p = SimpleNamespace(calls=[None] * 2, order=order, in_pieces=False, train=True)
    return again.Attempts(p, Recompiles(found, False), 2, False)


@pytest.mark.parametrize(
    ("built", "told"),
    [
        ({"": 5, "way": 3}, [f"x has a different dtype ({PLACE}): way: 5 versions, t"]),
        ({"": 5, "way": 5}, []),  # kernels undo it
        ({"": 5}, []),  # kernels raise
    ],
)
def test_what_is_promised_is_counted_with_kernels(built, told, monkeypatch):
    def counted(p, rounds, option, how=None):
        count = 2 if how is None else built[option.line]
        return Versions(count, False, True), True

    monkeypatch.setattr(again.Attempts, "_made", lambda *_: [Option("way")])
    monkeypatch.setattr(options, "versions", counted)
    lines = [*tried((1, 1, 1, 1), ["tensor 'x' dtype mismatch"]).lines()]
    lines = [line for line in lines if "untried" not in line]
    assert [line[: len(told[0])] for line in lines] == told if told else not lines


# ----------------------------------------------------------------------------- options


def test_global_settings_are_put_back_and_an_option_keeps_them():
    with options.kept_settings():
        [option] = options.settings_kept(["unheard_of", "default_dtype", "grad_mode"])
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        option.before()
        assert torch.get_default_dtype() == torch.float32
        assert torch.is_grad_enabled()
        torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() == torch.float32
    assert option.line.startswith("torch.set_default_dtype; torch.set_grad_enabled")
    assert [*options.settings_kept(["unheard_of"])] == []


def f(batch, n, *, scale=1.0):
    return batch["x"] * n * scale


def model():
    calls = [(({"x": torch.ones(2, n)}, n), {"scale": n / 2}) for n in (3, 5)]
    return SimpleNamespace(fn=f, module=None, calls=calls)


def test_inputs_have_the_names_of_the_models_forward():
    p = model()
    names = [name for name, _ in options.named(p, p.calls[0])]
    assert names == ["batch['x']", "n", "scale"]
    assert options.varying(p) == {"batch['x']": [1]}
    [mark] = options.marked(p)
    assert mark.line.endswith("call: torch._dynamo.mark_dynamic(batch['x'], 1)")
    option = options.changed(p, "twice", "scale", lambda leaf: 2 * leaf)
    assert [how for _, how in option.calls(p.calls)] == [{"scale": 3}, {"scale": 5}]
