"""Options and what they bring, without a model to compile."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from torch_checkup import again, capture, options
from torch_checkup.helpers.capture import (
    Call,
    GraphBreak,
    Guard,
    Recompiles,
)
from torch_checkup.options import Option, Versions

# ----------------------------------------------------------------- what is captured


def stop(file="mine.py", **more):
    usual = {"reason": "Why", "line": 4, "source": "y = g(x)", "function": "f"}
    return GraphBreak(**{**usual, "fix": "", "file": file, **more})


PLACE = "line 4 of mine.py, in f: y = g(x)"
CALLER = "line 2 of mine.py, in make: g()"
SETTING = "Set torch._dynamo.config.capture_scalar_outputs = True"
HINTS = ("Do this.", "Please file an issue.", SETTING, "Or that.")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (stop(fix="no .item()", hints=HINTS), f"{PLACE}: untried: no .item()"),
        (stop(hints=HINTS), f"{PLACE}: untried: Do this.; Or that."),
        (stop(hints=HINTS[1:3], explanation="It can't."), f"{PLACE}: It can't."),
        (stop(), f"{PLACE}: Why"),
        (
            stop("site-packages/lib/a.py", way=(CALLER,), explanation="It can't."),
            f"{CALLER}: it stops inside a library, line 4 of site-packages/lib/a.py, "
            "`y = g(x)`: It can't.",
        ),
        (
            stop("site-packages/torch/a.py", source="if x:"),
            "line 4 of site-packages/torch/a.py, in f: if x: it stops inside torch, "
            "line 4 of site-packages/torch/a.py, `if x:`: torch's own, it can be left",
        ),
    ],
)
def test_of_a_break_it_is_told_what_may_be_changed_or_why_it_stops(found, said):
    assert capture._untried(found) == said


# ---------------------------------------------------------------- what compiles again


def test_versions_are_told_with_the_limit_and_those_without_an_end_are_worse():
    many, few = Versions(8, True, False), Versions(1, False, True)
    assert many.then(few) == "8 versions and the recompile limit, then 1"
    assert few.then(many) == "1 version, then 8 and the recompile limit"
    endless = Versions(3, False, False)
    assert sorted([endless, many, few], key=lambda v: v.issues) == [few, endless, many]
    assert Versions(3, True, True).issues == endless.issues


ANOTHER_SIZE = "tensor '{}' size mismatch at index {}. expected 2, actual 3"
GUARDS = {  # torch's words of a guard that failed, and ours
    ANOTHER_SIZE.format("x", 1): "x has a different size in dimension 1",
    f"{ANOTHER_SIZE.format('p', 0)}. Guard failed on a parameter": (
        "the parameter p has a different size in dimension 0"
    ),
    "L['a'].size()[0] == L['b'].size()[1]": (
        "sizes of a and b were equal by chance in the first call"
    ),
    "2 <= L['x'].size()[0]": "a size of x is outside of what was compiled",
    "n == 3": "n is a constant in compiled code",
    "kwargs['n'] == 3": "n is a constant in compiled code",
    "self.flag == True": "self.flag is a choice",
    "name == 'a'": "name is a different text",
    "len(xs) == 3": "xs has a different length",
    "Duplicate tensors found": "one tensor is given twice in some calls",
    "a is b": "one tensor is given twice in some calls",
    "kwargs['mask'] is None": "mask is given in some calls, None in others",
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
    "___stack0 == 3": "the result of `n = x.item()` is a different value",
}


@pytest.mark.parametrize("test", GUARDS)
def test_a_guard_is_told_in_the_names_of_the_users_code(test):
    guard = Guard(test, "line 4 of mine.py, in f: if n:", "n = x.item()")
    [found] = again.findings([guard, Guard(test, "another line", "n = x.item()")])
    assert found.words == GUARDS[test]
    assert (found.guard, found.place) == (guard, " (line 4 of mine.py, in f: if n)")


def tried(counts, guards=(), limit_hit=False, blocks=False):
    failed = tuple(Guard(test, PLACE) for test in guards)
    found = tuple(Call(number, (), (), failed) for number in counts)
    order = {"timeout": 300.0}
    p = SimpleNamespace(calls=[None] * 2, order=order, in_pieces=False, train=True)
    return again.Attempts(p, Recompiles(found, limit_hit), 2, blocks)


def test_of_several_options_the_best_is_told_and_what_is_left_is_untried(monkeypatch):
    counts = {"helps": Versions(2, False, True), "helps most": Versions(1, False, True)}
    counts |= {"helps nothing": Versions(4, False, True)}

    def made(self, found):
        if found.words == "x has a different dtype":
            yield from map(Option, [*counts, "is wrong", "fails"])

    def counted(p, rounds, option, how=None):
        if option.line == "fails":
            raise ValueError("no such size")
        wrong = option.line == "is wrong"
        return counts["helps most" if wrong else option.line], not wrong

    monkeypatch.setattr(again.Attempts, "_made", made)
    monkeypatch.setattr(options, "versions", counted)
    looked = tried((1, 1, 1, 1), ["tensor 'x' dtype mismatch", "len(xs) == 3"])
    assert [*looked.lines()] == [
        f"x has a different dtype ({PLACE}): helps most: 4 versions, then 1",
        f"xs has a different length ({PLACE}): untried: always as many: fill it "
        "before the first call, or give one tensor",
    ]
    for line in ("is wrong", "fails"):
        assert not looked.try_(Option(line)).helps
    assert looked.try_(Option("fails")).why == "no such size"


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


def test_options_at_once_do_what_each_of_them_does():
    done = []

    def option(name, order=(), costs=""):
        @contextmanager
        def around():
            done.append(f"around {name}")
            yield

        return Option(
            *(name, {name: 1}, {f"{name} too": 2}, lambda calls: [*calls, name]),
            *(order, around, lambda: done.append(name), costs),
        )

    some = option("a"), option("b", (1, 0), "time"), option("c", (0, 1), "space")
    every = options.together([*some, some[0]])
    assert every.line == "all at once: a; b; c"
    assert every.settings == {"a": 1, "b": 1, "c": 1}
    assert every.options == {"a too": 2, "b too": 2, "c too": 2}
    assert every.calls(["call"]) == ["call", "a", "b", "c", "a"]
    assert (every.order, every.costs) == ((1, 0), "time; space")
    with every.around():
        every.before()
    assert done == [*(f"around {name}" for name in "abca"), *"abca"]
    assert options.together(some[:1]) is some[0]


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
    assert [kwargs for _, kwargs in option.calls(p.calls)] == [
        {"scale": 3},
        {"scale": 5},
    ]
