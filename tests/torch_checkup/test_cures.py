"""What is made of breaks, of versions and of cures, without a model to compile."""

import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from torch_checkup import breaks, cures, silent, versions
from torch_checkup.breaks import Seen
from torch_checkup.checkups import Part
from torch_checkup.cures import Cure, Versions
from torch_checkup.helpers.capture import (
    Call,
    Graph,
    GraphBreak,
    Graphs,
    Guard,
    Recompiles,
)
from torch_checkup.silent import Change

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
    assert breaks._untried(found) == said


def captured(number, *stops):
    return Graphs((Graph(("sin",)),) * number, stops)


@pytest.mark.parametrize(
    ("seen", "verdict", "says"),
    [
        (captured(1), "good", "all of it is one graph"),
        (captured(2), "good", "2 graphs, without a graph break"),
        (captured(3, stop(), stop()), "look", "2 graph breaks cut it into 3 graphs"),
        (captured(0, stop()), "bad", "nothing was captured: all of it runs eagerly"),
    ],
)
def test_what_is_captured_is_told_in_words_and_numbers(
    seen, verdict, says, monkeypatch
):
    monkeypatch.setattr(breaks, "seen_of", lambda _: Seen(seen, 0))
    monkeypatch.setattr(breaks, "_advice", lambda _: ["do"])
    part = breaks.captured(None)
    assert (part.name, part.verdict, part.says) == ("capture", verdict, says)
    assert part.counts == {"graphs": seen.count, "breaks": len(seen.breaks)}
    assert part.advice == ("do",)


def test_each_break_and_torchs_own_words_are_the_evidence(monkeypatch):
    long, short = stop(message="All that torch says"), stop()
    seen = Seen(captured(2, long, short), 0)
    monkeypatch.setattr(breaks, "seen_of", lambda _: seen)
    monkeypatch.setattr(breaks, "_advice", lambda _: ())
    evidence = breaks.captured(None).evidence
    assert evidence == (str(long), str(short), "All that torch says")


@pytest.mark.parametrize(
    ("every", "number"),
    [
        ([captured(1), captured(2, stop()), captured(3)], 1),
        ([captured(2, stop()), captured(0)], 1),
        ([captured(2), captured(3), captured(1)], 1),
    ],
)
def test_of_several_calls_that_which_is_captured_least_is_looked_at(
    every, number, monkeypatch
):
    captures = iter(every)
    monkeypatch.setattr(breaks, "graphs", lambda *_, **__: next(captures))
    p = SimpleNamespace(fn=abs, calls=[((), {})] * len(every))
    assert breaks.seen_of.__wrapped__(p) == Seen(every[number], number)


# ---------------------------------------------------------------- what compiles again

LIMIT = "the recompile limit is hit: then new ones run eagerly"
AGAIN = "inputs that it has seen compile again"
ONE_SET = "one set of inputs was given: give a list of those that come"


@pytest.mark.parametrize(
    ("counts", "calls", "more", "verdict", "says"),
    [
        ((1, 0, 0, 0), 2, {}, "good", "no second version"),
        ((1, 1, 0, 0), 2, {}, "good", "one more version serves the rest"),
        ((1, 1, 1, 0, 0, 0), 3, {}, "look", "these inputs compile 2 more versions"),
        ((1, 1, 1, 0, 0, 0), 2, {}, "look", f"{AGAIN}: 1 time in 3 rounds"),
        ((1, 1, 1, 1), 2, {}, "bad", f"{AGAIN}: 2 times in 2 rounds"),
        (
            *((1, 1, 1, 0, 0, 0), 2, {"stopped": "it took long"}),
            *("bad", f"{AGAIN}: 1 time in 3 rounds; it took long"),
        ),
        (
            *((1, 1, 1, 0, 0, 0), 2, {"limit_hit": True}),
            *("bad", f"{AGAIN}: 1 time in 3 rounds, until {LIMIT}"),
        ),
        (
            *((1, 1, 0, 0), 2, {"limit_hit": True}),
            *("bad", f"these inputs compile until {LIMIT}"),
        ),
        ((1, 0), 1, {}, "good", f"no second version; {ONE_SET}"),
    ],
)
def test_the_verdict_on_versions(counts, calls, more, verdict, says):
    found = tuple(Call(number, (), ()) for number in counts)
    seen = Recompiles(found, **{"limit_hit": False, **more})
    p = SimpleNamespace(calls=[None] * calls, fails=[])
    numbers = sum(counts[calls:]), sum(counts[1:calls]), len(counts) // calls
    assert versions._verdict(p, seen, *numbers) == (verdict, says)


def test_versions_are_told_with_the_limit_and_those_without_an_end_are_worse():
    many, few = Versions(8, True, False), Versions(1, False, True)
    assert many.then(few) == "8 versions and the recompile limit, then 1"
    assert few.then(many) == "1 version, then 8 and the recompile limit"
    endless = Versions(3, False, False)
    assert sorted([endless, many, few], key=lambda v: v.ill) == [few, endless, many]
    assert Versions(3, True, True).ill == endless.ill


ANOTHER_SIZE = "tensor '{}' size mismatch at index {}. expected 2, actual 3"
GUARDS = {  # torch's words of a guard that failed, and ours
    ANOTHER_SIZE.format("x", 1): "x has another size in dimension 1",
    f"{ANOTHER_SIZE.format('p', 0)}. Guard failed on a parameter": (
        "the parameter p has another size in dimension 0"
    ),
    "L['a'].size()[0] == L['b'].size()[1]": (
        "sizes of a and b were equal by chance in the first call"
    ),
    "2 <= L['x'].size()[0]": "a size of x is outside of what was compiled",
    "n == 3": "n is a constant in compiled code",
    "kwargs['n'] == 3": "n is a constant in compiled code",
    "self.flag == True": "self.flag is a choice",
    "name == 'a'": "name is another text",
    "len(xs) == 3": "xs has another length",
    "Duplicate tensors found": "one tensor is given twice in some calls",
    "___check_obj_id(key, 7)": "key is another object",
    "___stack0 == 3": "the result of `n = x.item()` is another",
}


@pytest.mark.parametrize("test", GUARDS)
def test_a_guard_is_told_in_the_names_of_the_users_code(test):
    guard = Guard(test, "line 4 of mine.py, in f: if n:", "n = x.item()")
    [found] = versions.findings([guard, Guard(test, "another line", "n = x.item()")])
    assert found.words == GUARDS[test]
    assert (found.guard, found.place) == (guard, " (line 4 of mine.py, in f: if n)")


def tried(counts, guards=(), limit_hit=False, compiling=None):
    failed = tuple(Guard(test, PLACE) for test in guards)
    found = tuple(Call(number, (), (), failed) for number in counts)
    p = SimpleNamespace(calls=[None] * 2, order={"timeout": 300.0})
    return versions.Cures(p, Recompiles(found, limit_hit), 2, compiling)


def test_the_versions_without_a_cure_are_those_that_were_seen():
    assert tried((1, 1, 1, 0)).now == Versions(3, False, False)
    assert tried((1, 1, 0, 0), limit_hit=True).now == Versions(2, True, True)


@pytest.mark.parametrize(
    ("limit_hit", "helped", "compiling", "lines"),
    [
        (True, False, None, ["torch._dynamo.config.recompile_limit = 64"]),
        (True, True, None, []),
        (
            *(True, True, torch.compile),
            [
                "torch._dynamo.config.recompile_limit = 64",
                "block.compile(isolate_recompiles=True)",
            ],
        ),
        (False, False, torch.compile, []),
    ],
)
def test_room_for_more_versions_is_tried_where_the_limit_is_hit(
    limit_hit, helped, compiling, lines
):
    found = [*tried((1, 1), (), limit_hit, compiling)._limits(helped)]
    assert [cure.line for cure in found] == lines
    wanted = [{"recompile_limit": 64}, {}], [{}, {"isolate_recompiles": True}]
    assert [cure.settings for cure in found] == wanted[0][: len(found)]
    assert [cure.options for cure in found] == wanted[1][: len(found)]


def test_of_several_cures_the_best_is_told_and_what_is_left_is_untried(monkeypatch):
    counts = {"helps": Versions(2, False, True), "helps most": Versions(1, False, True)}
    counts |= {"helps nothing": Versions(4, False, True), "is wrong": None}

    def made(self, found):
        if found.words == "x has another dtype":
            yield from map(Cure, [*counts, "fails"])

    def counted(p, cure, compiling, rounds):
        if cure.line == "fails":
            raise ValueError("no such size")
        return counts[cure.line]

    monkeypatch.setattr(versions.Cures, "_made", made)
    monkeypatch.setattr(cures, "versions", counted)
    looked = tried((1, 1, 1, 1), ["tensor 'x' dtype mismatch", "len(xs) == 3"])
    assert [*looked.lines()] == [
        f"x has another dtype ({PLACE}): helps most: 4 versions, then 1",
        f"xs has another length ({PLACE}): untried: always as many: fill it before the "
        "first call, or give one tensor",
    ]
    assert not looked._helps(Cure("is wrong")) and not looked._helps(Cure("fails"))
    assert looked.tried["is wrong"] == "other answers"
    assert looked.tried["fails"] == "no such size"


# ------------------------------------------------------------ what no guard has seen

RESET = "call torch.compiler.reset() after the change: it is noticed then"


class Probe:
    """Notices what it is told to: changes by name, with a setting or after a reset."""

    def __init__(self, after_reset=(), **with_setting):
        self.after_reset, self.with_setting = after_reset, with_setting

    def anew(self, setting):
        return Probe(self.with_setting.get(setting, ()))

    def notices(self, change, reset=True):
        return change.name in self.after_reset


def change(name, setting=""):
    return Change(name, None, setting=setting)


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (
            Probe("ab", s="a"),
            ["torch._dynamo.config.s = False: a: noticed then", RESET],
        ),
        (Probe("ab", s="b"), [RESET]),
        (Probe("b", s="a"), ["torch._dynamo.config.s = False: a: noticed then"]),
        (Probe(), []),
    ],
)
def test_what_makes_compiled_code_follow_is_tried_and_told(probe, said):
    assert silent._mends(probe, [change("a", "s"), change("b")]) == said
    assert silent._mends(probe, []) == []


@pytest.mark.parametrize(
    ("noticed", "names", "hooks"),
    [
        (["a hook"], ["a hook", "a method"], True),
        ([], ["a hook", "a method"], False),
        (["a hook"], ["a hook", "another hook"], False),
        ([], ["a method"], False),
    ],
)
def test_what_no_compiled_model_notices_is_told_once(noticed, names, hooks):
    setting = "skip_nnmodule_hook_guards"
    probe = Probe(**{setting: noticed})
    missed = [change(name, setting if "hook" in name else "") for name in names]
    said = silent._of_every_model(probe, missed)
    assert said.startswith(
        f"As in every compiled model, not seen is {'; '.join(names)}: do it before the "
        "first call, or call torch.compiler.reset() after."
    )
    line = f"{setting} = False, which was tried, it notices hooks."
    assert said.endswith(f" With torch._dynamo.config.{line}") is hooks


@pytest.mark.parametrize(
    ("let_pass", "compiles", "why"),
    [
        (True, False, "lets pass that it does not compile: ValueError: no compiler"),
        (True, True, ""),
        (False, False, ""),
    ],
)
def test_errors_that_are_let_pass_are_the_reason(let_pass, compiles, why):
    def compiled(x):
        assert not torch._dynamo.config.suppress_errors
        if not compiles:
            raise ValueError("no compiler\nat all")

    call = (torch.ones(2),), {}
    p = SimpleNamespace(
        fn=torch.sin, calls=[call], run=lambda fn: fn, compiled=lambda: compiled
    )
    with torch._dynamo.config.patch(suppress_errors=let_pass):
        said = silent._let_pass(p)
    runs = "it runs eagerly: torch._dynamo.config.suppress_errors "
    assert said == (runs + why if why else "")


@pytest.fixture
def graph_runs(monkeypatch):
    """A function that says of a part what the looks at a model find."""
    found = {"let pass": "", "writes": False, "later": (False, False), "notices": {}}
    backends = []

    class Looks:
        def __init__(self, p, backend):
            backends.append((p, backend))

        def notices(self, change, reset=False):
            return reset or found["notices"][change]

    def later(p, calls_before=0):
        return found["later"][calls_before]

    def looked(graphs=1, **given):
        found.update(given)
        seen = SimpleNamespace(now=captured(graphs))
        monkeypatch.setattr(silent, "seen_of", lambda p: seen if p == "me" else None)
        return silent.silent("me"), backends

    every = {"_let_pass": "let pass", "_writes": "writes", "_changes": "notices"}
    for name, key in every.items():
        monkeypatch.setattr(silent, name, lambda p, key=key: p == "me" and found[key])
    monkeypatch.setattr(silent, "_why_eager", lambda p: f"no graph of {p}")
    monkeypatch.setattr(silent, "_later_call_differs", later)
    monkeypatch.setattr(silent, "Probe", Looks)
    return looked


EAGER = {"compiled": False, "stale": 0}


def test_where_no_graph_runs_the_part_says_why(graph_runs):
    part, _ = graph_runs(graphs=0)
    assert part == Part("silent", "bad", "no graph of me", EAGER)
    part, backends = graph_runs(**{"let pass": "it is let pass"})
    assert part == Part("silent", "bad", "it is let pass", EAGER) and backends == []


def test_what_is_noticed_and_what_is_stale_is_told(graph_runs):
    seen, stale, idle = change("seen"), change("stale"), change("idle")
    of_all = Change("a hook", None, of_all=True)
    notices = {seen: True, idle: None, of_all: False}
    part, backends = graph_runs(notices=notices, writes=True)
    assert backends == [("me", "aot_eager")]
    assert (part.verdict, part.advice) == ("good", ())
    assert part.says == "its graph runs; 1 change after the first call noticed"
    assert part.counts == {"compiled": True, "stale": 0}
    table, every = part.evidence
    heads, _, row = table.splitlines()
    assert heads.startswith("changed after the first call  compiled code")
    assert row.split() == ["seen", "noticed"]
    assert every.startswith("As in every compiled model, not seen is a hook: do it")

    notices = {seen: True, stale: False}
    part, backends = graph_runs(notices=notices, writes=False, later=(True, False))
    assert backends[1] == ("me", "eager")
    first = "what the first call itself changed, such as a hook or a list"
    assert part.says == f"not noticed after the first call: {first}, stale"
    assert (part.verdict, part.counts["stale"]) == ("bad", 2)
    once = "call the model once before torch.compile: it agrees then"
    assert part.advice == (once, RESET)
    rows = [re.split("  +", row) for row in part.evidence[0].splitlines()[2:]]
    assert rows == [
        ["nothing: a second call in the same way", "DIFFERS from eager"],
        ["seen", "noticed"],
        ["stale", "NOT NOTICED"],
    ]
    part, _ = graph_runs(notices={}, later=(True, True))
    assert (part.says.split(": ")[1], part.advice) == (first, ())


@pytest.mark.parametrize(("layers", "names"), [(3, ["0", "2"]), (1, ["0"]), (0, [])])
@pytest.mark.parametrize("train", [True, False])
def test_the_first_and_the_last_layer_get_a_late_hook(layers, names, train):
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(layers)))
    p, modules = SimpleNamespace(train=train), dict(model.named_modules())
    found = [*silent._hooks(p, modules)]
    late = [f"a hook on {name}" for name in names]
    late += [f"a backward hook on {name}" for name in names[-1:] if train]
    assert [one.name for one in found] == late
    assert all(one.of_all for one in found)
    assert sum(one.backward for one in found) == (train and layers > 0)


def test_what_is_looked_at_is_compiled_without_kernels(monkeypatch):
    made = []
    monkeypatch.setattr(torch, "compile", lambda fn, **how: made.append((fn, how)))
    probe = silent.Probe(SimpleNamespace(fn=torch.sin), "aot_eager")
    assert (probe.setting, probe.anew("s").setting) == ("", "s")
    assert made == [(torch.sin, {"backend": "aot_eager"})] * 2


class Counts(torch.nn.Module):
    def __init__(self, writes):
        super().__init__()
        self.weight, self.writes = torch.nn.Parameter(torch.ones(2)), writes
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x, *, more):
        self.calls += 1
        if self.writes:
            with torch.no_grad():
                self.weight.mul_(more)
        return x * self.weight


@pytest.mark.parametrize("writes", [True, False])
def test_whether_a_call_writes_to_parameters_is_asked_and_nothing_stays(writes):
    model = Counts(writes)
    p = SimpleNamespace(fn=model, module=model, calls=[((torch.ones(2),), {"more": 2})])
    assert silent._writes(p) is writes
    assert model.calls == 0 and torch.equal(model.weight, torch.ones(2))
    p.fn, p.module = (lambda x, more: x * more), None
    assert silent._writes(p) is False


def test_a_number_becomes_another_one_of_its_type():
    assert (silent._other(3), silent._other(2.0), silent._other(0.0)) == (4, 3.5, 0.5)
    numbers = [one for one in (1, 0.5, True, "1", None) if silent._is_number(one)]
    assert numbers == [1, 0.5]


# ----------------------------------------------------------------------------- cures


def test_cures_at_once_do_what_each_of_them_does():
    done = []

    def cure(name, order=(), costs=""):
        @contextmanager
        def around():
            done.append(f"around {name}")
            yield

        return Cure(
            *(name, {name: 1}, {f"{name} too": 2}, lambda calls: [*calls, name]),
            *(order, around, lambda: done.append(name), costs),
        )

    some = cure("a"), cure("b", (1, 0), "time"), cure("c", (0, 1), "space"), cure("a")
    every = cures.together(some)
    assert every.line == "all at once: a; b; c"
    assert every.settings == {"a": 1, "b": 1, "c": 1}
    assert every.options == {"a too": 2, "b too": 2, "c too": 2}
    assert every.calls(["call"]) == ["call", "a", "b", "c", "a"]
    assert (every.order, every.costs) == ((1, 0), "time; space")
    with every.around():
        every.before()
    assert done == [*(f"around {name}" for name in "abca"), *"abca"]
    assert cures.together(some[:1]).order == ()


def test_the_switches_that_torch_names_are_tried_where_they_are():
    words = (
        "Set torch._dynamo.config.capture_scalar_outputs = True, "
        "`torch._dynamo.config.error_on_recompile` to `False` or "
        "torch._dynamo.config.never_heard_of = True"
    )
    scalars, recompile = cures.switches(words)
    assert scalars.line == "torch._dynamo.config.capture_scalar_outputs = True"
    assert scalars.settings == {"capture_scalar_outputs": True}
    assert recompile.settings == {"error_on_recompile": False}


def test_global_settings_are_put_back_and_a_cure_keeps_them():
    with cures.kept_settings() as before:
        cure = cures.settings_kept(["unheard_of", "default_dtype", "grad_mode"])
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        cure.before()
        assert torch.get_default_dtype() == torch.float32 == before["default_dtype"]
        assert torch.is_grad_enabled()
        torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() == torch.float32
    sets = "torch.set_default_dtype; torch.set_grad_enabled, no_grad() or inference_mo"
    assert cure.line.startswith(sets)
    assert cure.line.endswith(": once, before the first call, and not again")
    assert cures.settings_kept(["unheard_of"]) is None


@pytest.mark.parametrize("name", cures.SETTINGS)
def test_each_global_setting_can_be_asked_and_changed(name):
    ask, change, _ = cures.SETTINGS[name]
    others = {
        "default_dtype": torch.float64,
        "num_threads": torch.get_num_threads() + 1,
    }
    other = others.get(name, not ask())
    with cures.kept_settings() as before:
        change(other)
        assert ask() == other != before[name]
    assert ask() == before[name]


@pytest.mark.parametrize(
    ("some", "others", "roughly"),
    [
        ([1.0, 2.0], [1.005, 2.0], True),
        ([1.0, 2.0], [1.05, 2.0], False),
        ([0.0], [0.0005], True),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_what_is_roughly_equal_is_no_stale_answer(some, others, roughly):
    some, others = torch.tensor(some), torch.tensor(others)
    assert cures.near([some], [others]) is roughly
    assert cures.near([some.double()], [others]) is roughly
    assert cures.near([some], [others, others]) is False


def f(batch, n, *, scale=1.0):
    return batch["x"] * n * scale


def patient():
    calls = [(({"x": torch.ones(2, n)}, n), {"scale": n / 2}) for n in (3, 5)]
    return SimpleNamespace(fn=f, module=None, calls=calls)


def test_inputs_have_the_names_of_the_models_forward():
    p = patient()
    names = [name for name, _ in cures.named(p, p.calls[0])]
    assert names == ["batch['x']", "n", "scale"]
    assert cures.varying(p) == {"batch['x']": [1]}
    [mark] = cures.marked(p)
    assert mark.line.endswith("call: torch._dynamo.mark_dynamic(batch['x'], 1)")

    def change(name, leaf):
        return 2 * leaf if name in ("n", "scale") else name

    changed = cures.changed(p, change, p.calls)
    assert changed == [(({"x": "batch['x']"}, 2 * n), {"scale": n}) for n in (3, 5)]


@pytest.mark.parametrize("name", ["n", "scale", "batch['x']", "batch", "unheard_of"])
def test_a_number_that_is_given_becomes_a_tensor(name):
    p = patient()
    found = [*cures.given(p, name)]
    if name not in ("n", "scale"):
        assert found == []
        return
    [cure] = found
    assert cure.line == f"pass {name} as a tensor, torch.tensor({name})"
    for given, (inputs, kwargs) in zip(p.calls, cure.calls(p.calls), strict=True):
        every = {"n": inputs[1], "scale": kwargs["scale"]}
        usual = {"n": given[0][1], "scale": given[1]["scale"]}
        assert torch.equal(every.pop(name), torch.tensor(usual.pop(name)))
        assert every == usual


class Held:
    def __init__(self):
        self.step, self.name = 3, "a"


HELD = Held()


def uses(x):
    return x * HELD.step


def test_a_number_that_is_held_becomes_a_tensor_for_a_while(monkeypatch):
    monkeypatch.setattr(HELD, "step", 3)  # it is put back after the test
    p = SimpleNamespace(fn=uses, module=None, calls=[])
    [cure] = cures.held(p, "self.step")
    assert cure.line == "make self.step a tensor, torch.tensor(self.step)"
    with cure.around():
        assert torch.equal(HELD.step, torch.tensor(3))
    assert [*cures.held(p, "self.name"), *cures.held(p, "HELD")] == []
