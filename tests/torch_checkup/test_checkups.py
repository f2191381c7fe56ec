"""What is made of what the parts of a check-up find: the result, and the gate."""

import dataclasses
import re
from dataclasses import asdict, replace

import pytest

from tests.refresh import ROOT
from tests.torch_checkup import test_starts
from torch_checkup import checkup, checkups, composition, load, where
from torch_checkup.checkups import (
    NAMES,
    QUESTIONS,
    Checkup,
    Part,
    ended_part,
    start_part,
    training_part,
)
from torch_checkup.composition import SITUATIONS, Composition, Situation
from torch_checkup.differences import Difference
from torch_checkup.helpers import children
from torch_checkup.helpers.errors import InputError
from torch_checkup.helpers.results import Machine
from torch_checkup.where import Where


def target(name):
    return f"{ROOT / 'tests' / 'torch_checkup' / 'sick_models.py'}:{name}"


def result(**counts):
    by_part = {}
    for name, value in counts.items():
        by_part.setdefault(NAMES.get(name, "recompiles"), {})[name] = value
    parts = [Part(name, "good", "as it should be", c) for name, c in by_part.items()]
    return Checkup("mine:make", tuple(parts), False, 1, machine=Machine.here())


# --- the parts, in their processes --------------------------------------------------


@pytest.mark.parametrize(
    ("given", "gpu", "limits", "left_out"),
    [
        ({}, "h100", (5.0, 300.0, None), {"gpu", "composes"}),
        ({"gpu": "a100"}, "a100", (5.0, 300.0, None), {"composes"}),
        (
            {"train": True, "budget": 2.0, "timeout": 9.0, "memory": 7},
            *("h100", (2.0, 9.0, 7), {"gpu"}),
        ),
    ],
)
def test_each_part_is_asked_for_with_its_limits(
    given, gpu, limits, left_out, monkeypatch, bar
):
    asked, apart, train = [], [], "train" in given

    def parts(child, order, names, *limits):
        asked.append((child, order, names, limits[:2]))
        yield "", {"trains": train, "calls": 2}
        yield from ((name, asdict(Part(name, "good", ""))) for name in names[::-1])

    def done_apart(name, order):
        apart.append((name, order))
        return Part(name, "good", "")

    monkeypatch.setattr(children, "parts", parts)
    monkeypatch.setattr(checkups, "_apart", done_apart)
    found = checkup(target("healthy"), **given)
    names = [name for name in QUESTIONS if name not in left_out]
    assert [part.name for part in found.parts] == names
    assert (found.target, found.trains, found.calls) == (
        *("sick_models.py:healthy", train),
        2,
    )
    order = {"target": target("healthy"), "train": train, "gpu": gpu}
    order |= dict(zip(("budget", "timeout", "memory"), limits, strict=True))
    here = [name for name in names if name not in ("start", "composes")]
    assert asked == [("torch_checkup.checkup_child", order, here, limits[1:])]
    order |= {"trains": train, "calls": 2}
    assert apart == [("start", order), ("composes", order)][: 1 + train]
    assert bar.made == ("checkup", 10 - ("gpu" in left_out), "parts")
    assert bar.n == len(names)


def test_parts_with_processes_of_their_own_have_the_same_limits(monkeypatch):
    def noted(*asked, **limits):
        raise InputError(f"{asked} {limits}")

    monkeypatch.setattr(composition, "composes", noted)
    monkeypatch.setattr(checkups.starts, "cold_start", noted)
    order = {"target": "m:make", "timeout": 9.0, "memory": 7, "trains": True}
    limits = "'timeout': 9.0, 'memory': 7}"
    for name, said in [
        ("composes", f"('m:make',) {{{limits}"),
        ("start", f"('m:make',) {{'train': True, {limits}"),
    ]:
        assert checkups._apart(name, order) == Part(name, "failed", said)


def test_what_never_ends_is_not_waited_for_in_each_part_anew(monkeypatch):
    asked = []

    def parts(child, order, names, timeout, *_):
        asked.append((names, timeout))
        if "matches" in names:
            yield "matches", {"problem": "not done after 90 seconds", "ended": "time"}
        yield from ((name, {}) for name in names if "matches" not in names)

    monkeypatch.setattr(checkups.children, "parts", parts)
    order = {"target": target("healthy"), "timeout": 90.0, "memory": None}
    names = ["matches", "capture", "silent", "next"]
    assert [name for name, _ in checkups._found(names, order, {})] == names
    assert asked == [(names, 90.0), (names[1:], 30.0)] and order["timeout"] == 30.0


@pytest.mark.parametrize(
    ("name", "running", "verdict"),
    [
        ("matches", "compiled", "bad"),
        ("matches", "the build", "bad"),
        ("matches", "eager", "failed"),
        ("speed", "compiled", "failed"),
    ],
)
def test_what_ends_the_process_only_when_compiled_is_bad(name, running, verdict):
    problem = f"failed at: {name}: its process died of SIGSEGV"
    part = ended_part(name, problem, running, "SIGSEGV")
    assert part.verdict == verdict and part.says.endswith("its process died of SIGSEGV")
    wrong = [(d.field, d.eager, d.compiled, d.ended) for d in part.differences]
    died = [("raises", "runs", "its process died of SIGSEGV", "SIGSEGV")]
    assert wrong == (died if verdict == "bad" else [])


def test_a_build_that_is_not_done_in_time_is_no_wrong_answer():
    part = ended_part("matches", "not done after 9 seconds", "the build", "time")
    assert part.verdict == "failed" and part.says.endswith("(it was still compiling)")
    assert ended_part("matches", "not done", "compiled", "time").verdict == "bad"


@pytest.mark.parametrize("search", [True, False])
def test_where_it_comes_from_is_looked_for_unless_that_is_left_out(search, monkeypatch):
    wrong = Difference(1, "output", "values", "1", "2")
    part = asdict(Part("matches", "bad", "", differences=(wrong,)))
    news = [("", {"trains": False, "calls": 1}), ("matches", part)]
    monkeypatch.setattr(children, "parts", lambda *_: iter(news))
    looked = Where(1, "output", "values", "1", "2", stage="inductor")
    monkeypatch.setattr(checkups.where, "searched", lambda *_: looked)
    found = checkup(target("healthy"), only=["matches"], search=search)
    assert found["matches"].where == (looked if search else None)


def test_what_is_interrupted_apart_is_not_judged(monkeypatch):
    stopped = composition.Composition("mine:make", (), interrupted=True)
    monkeypatch.setattr(composition, "composes", lambda *_, **__: stopped)
    news = [("", {"trains": True, "calls": 1})]
    monkeypatch.setattr(children, "parts", lambda *_: iter(news))
    found = checkup(target("healthy"), only=["matches", "composes"])
    assert found.interrupted and {p.verdict for p in found.parts} == {"not run"}


def test_the_other_places_that_differ_are_said_to_be_not_searched(monkeypatch):
    places = ["output[0]", "output[0]", "output[1]", "buffer n", *"abc"]
    fields = ["values", "dtype", *["values"] * 5]
    found = [
        Difference(1, *both, "1", "2") for both in zip(places, fields, strict=True)
    ]
    stride = Difference(1, "output[2]", "stride", "(2,)", "(1,)")
    monkeypatch.setattr(where, "searched", lambda *_: where.Where(1, *["x"] * 4))
    part = Part("matches", "bad", "", differences=(*found, stride))
    order, files = {"timeout": 1.0, "memory": None}, where.Files()
    for some, said in [
        (part, "output[1], buffer n, a, b and 1 more; run it again when output[0] is"),
        (replace(part, differences=(found[0], stride)), ""),
    ]:
        advice = checkups._with_where(some, order, files).advice
        named = [line.partition(": ")[2] for line in advice if "not searched" in line]
        assert named == ([f"{said} eager's"] if said else [])


# --- parts with processes of their own ----------------------------------------------


@pytest.mark.parametrize(("hits", "verdict"), [(2, "good"), (0, "bad")])
def test_a_second_process_that_finds_nothing_is_ill(hits, verdict):
    asked = test_starts.lookup(hits=hits, misses=2 - hits)
    first, second = test_starts.started(10), test_starts.started(2, lookups=(asked,))
    start = start_part(test_starts.found(empty=[first], warm=[second]))
    assert start.verdict == verdict
    assert start.counts == {"saved": 0.8, "found_in_cache": hits}
    assert start.says.startswith("a second process finds nothing") == (not hits)


def test_a_cache_that_is_not_asked_is_named_with_its_reason():
    why = "Unsupported call_function target FunctionCtx. \n Module: torch"
    asked = test_starts.lookup(hits=2)
    passed = test_starts.lookup("AOTAutogradCache", bypasses=1)
    passed = replace(passed, reasons=(why,))
    first = test_starts.started(10)
    second = test_starts.started(2, lookups=(passed, asked))
    start = start_part(test_starts.found(empty=[first], warm=[second]))
    assert start.verdict == "look"
    assert start.says.startswith("a second process passes AOTAutogradCache by: ")
    [advice] = start.advice
    assert re.search("AOTAutogradCache .*Ctx. Module: .*custom_autograd", advice)


def test_what_is_worth_shipping_is_the_best_way_that_can_be_shipped():
    def part(**seconds):
        ways = {name: [test_starts.started(s)] for name, s in seconds.items()}
        return start_part(test_starts.found(**ways))

    start = part(empty=10, warm=1, copied=5, image=4)
    assert start.says == "⟨10 s⟩ until the first answer, ⟨1 s⟩ with a warm cache"
    said = "ships ⟨7 B⟩ and saves ⟨60%⟩ of the first call"
    assert (start.verdict, start.advice) == ("good", (f"'image' {said}",))
    assert part(empty=10, warm=1, copied=8).advice == ()
    ended = [test_starts.started(problem="it was ended")]
    start = start_part(test_starts.found(empty=[test_starts.started(10)], warm=ended))
    assert (start.verdict, start.advice) == ("look", ())
    assert start.evidence[1:] == ("warm: it was ended",)
    assert set(start.counts.values()) == {None}


def test_why_a_second_process_finds_nothing_is_told_by_the_parts_of_its_key():
    first, second = (
        test_starts.started(s, lookups=(test_starts.lookup(hits=0, threads=n),))
        for s, n in ((10, "2"), (9, "8"))
    )
    missed = {"empty": [first], "warm": [second]}
    [advice] = start_part(test_starts.found(**missed)).advice
    assert advice == "look why: threads of its key is another"
    missed["warm"] = [replace(second, lookups=first.lookups)]
    [advice] = start_part(test_starts.found(**missed)).advice
    assert advice == "look why: are caches switched off?"
    nothing = replace(first, phases={"Dynamo": 1.0})  # was built: nothing to find
    missed["empty"] = [nothing]
    assert start_part(test_starts.found(**missed)).verdict == "good"


@pytest.mark.parametrize(
    ("verdicts", "verdict", "unmet"),
    [
        ({"late hook": "differs", "state_dict": "raises"}, "good", 0),
        ({"autocast": "raises", "late hook": "differs"}, "look", 0),
        ({"scheduler": "differs"}, "bad", 1),
        (dict.fromkeys(SITUATIONS, "not done"), "cannot tell", 1),
    ],
)
def test_a_checkup_of_training_judges_what_is_this_models_own(verdicts, verdict, unmet):
    every = {**dict.fromkeys(SITUATIONS, "agrees"), **verdicts}
    situations = tuple(Situation(name, found, "") for name, found in every.items())
    found = Composition("m:make", situations)
    part = training_part(found)
    looked = Checkup("m:make", (part,), True, 1)
    assert part.verdict == verdict
    assert len(looked.unmet("silently_different=0")) == unmet
    for name in (*found.named("differs"), *found.named("raises")):
        assert name in part.says
    # One that took too long is not as good as one that agrees.
    ended = [dataclasses.replace(one, verdict="not done") for one in situations[2:]]
    part = training_part(Composition("m:make", (*situations[:2], *ended)))
    assert part.verdict != "good"
    assert "had to be ended" in part.says


# --- the result, the gate, the page -------------------------------------------------


def test_requirements_are_held_against_the_counts():
    found = result(graphs=2, breaks=1, recompiles=3, matches=False)
    assert found.unmet("graphs=2, breaks<2, recompiles<=3, recompiles>=3") == []
    unmet = found.unmet("graphs=1,breaks=0,recompiles<3,matches,kernels<5")
    assert [line.split(":")[0] for line in unmet] == [
        *("graphs=1", "breaks=0", "recompiles<3", "matches", "kernels<5")
    ]
    assert unmet[-1].endswith("its part was not run")
    with pytest.raises(AssertionError, match="breaks=0: it is 1"):
        found.require("breaks=0")
    for rule in ("speed=fast", "speedup>1..2"):
        with pytest.raises(InputError, match=f"'{rule}' is no requirement"):
            found.require(rule)


def test_what_became_worse_is_named():
    before = result(breaks=0, kernels=2, matches=True, speedup_low=1.8, guards="a")
    same = result(breaks=0, kernels=2, matches=True, speedup_high=1.9, guards="a")
    assert same.worse_than(before) == []
    now = result(breaks=1, kernels=3, matches=False, speedup_high=1.2, guards="b")
    assert [line.split(":")[0] for line in now.worse_than(before)] == [
        *("breaks", "kernels", "matches", "guards that fail", "speedup")
    ]
    assert before.worse_than(now) == ["guards that fail: 'b' before, 'a' now"]
    found = {"compiled": True, "found_in_cache": 2, "limit_hit": False}
    lost = {"compiled": False, "found_in_cache": 0, "limit_hit": True}
    worse = result(**lost).worse_than(result(**found))
    assert worse == [
        "limit_hit: False before, True now",
        "compiled: True before, False now",
        "found_in_cache: 2 before, 0 now",
    ]
    assert result(found_in_cache=1).worse_than(result(**found)) == []
    for mended in ("", "a"):
        assert result(guards=mended).worse_than(result(guards="a; b")) == []
    assert result(graphs=0).worse_than(result(graphs=1)) == ["graphs: 1 before, 0 now"]


def test_a_part_that_fails_now_became_worse():
    good, failed = (
        Checkup("m:make", (Part("speed", verdict, "it died"),), False, 1)
        for verdict in ("good", "failed")
    )
    assert failed.worse_than(good) == ["speed: it fails now, it died"]
    assert failed.worse_than(failed) == good.worse_than(failed) == []


def test_a_row_for_each_part_and_below_them_their_advice():
    parts = Part("speed", "bad", "slow", advice=("do",)), Part("start", "good", "quick")
    found = Checkup("m:make", parts, False, 1, interrupted=True)
    heads, _, *rows = str(found).splitlines()
    assert heads.split() == ["part", "verdict", "lesson", "found"]
    assert [row.split() for row in rows[:2]] == [
        ["✗", "speed", "bad", "02", "slow"],
        ["✓", "start", "good", "22", "quick"],
    ]
    ended = "interrupted: these are the parts that were done"
    assert rows[2:] == ["speed: do", ended]
    assert found["start"].question.startswith("Where do the first call's seconds")
    with pytest.raises(
        KeyError, match=r"no part 'gpu': there are \['speed', 'start'\]"
    ):
        found["gpu"]


def test_what_differs_stands_in_the_terminal_and_on_the_page():
    many = [Difference(n, "output", "dtype", "int8", "int64") for n in range(1, 15)]
    part = Part("matches", "bad", "", {"matches": False}, differences=tuple(many))
    found = Checkup("mine:make", (part,), False, 1, machine=Machine.here())
    rows = re.findall(r"^(\d+) +output +dtype  int8   int64$", str(found), re.M)
    assert [*map(int, rows)] == [*range(1, 13)] and "and 2 more" in str(found)
    page = found.to_html()
    assert len(re.findall(r"<td>int64</td>", page)) == 14
    assert Checkup.from_json(found.to_json()) == found


def test_it_comes_back_from_json(tmp_path):
    found = result(breaks=1, matches=True)
    path = found.save(tmp_path / "found.json")
    assert load(path) == found


def test_its_readme_names_each_part_fact_and_file():
    package = ROOT / "torch_checkup"
    text = (package / "README.md").read_text("utf-8")
    named = set(re.findall(r"`([\w.]+)`", text))
    files = {path.name for path in package.iterdir() if path.suffix in (".py", ".toml")}
    assert {*QUESTIONS, *NAMES, *files} - named == {"__init__.py"}
    for question, _ in QUESTIONS.values():
        assert f"| {question}" in text
