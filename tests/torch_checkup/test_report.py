"""The report of a check-up: its parts, the gate, the terminal, the page and JSON."""

import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.refresh import ROOT, notebooks
from torch_checkup import checkup, composing, load, report, sandbox, where
from torch_checkup.composing import SITUATIONS, Composition, Situation
from torch_checkup.helpers.differences import Difference
from torch_checkup.helpers.errors import InputError
from torch_checkup.helpers.results import Machine
from torch_checkup.helpers.text import Table
from torch_checkup.report import NAMES, QUESTIONS, Checkup, Part, ended_part
from torch_checkup.where import Where


def target(name):
    return f"{ROOT / 'tests' / 'torch_checkup' / 'broken_models.py'}:{name}"


def result(**counts):
    by_part = {}
    for name, value in counts.items():
        by_part.setdefault(NAMES.get(name, "recompiles"), {})[name] = value
    parts = [Part(name, "good", "as it should be", c) for name, c in by_part.items()]
    return Checkup("mine:make", tuple(parts), False, 1, machine=Machine.here())


@pytest.fixture
def parts(monkeypatch):
    """A function that puts a generator of parts in the place of the sandbox."""
    return lambda found: monkeypatch.setattr(sandbox, "parts", found)


# --- the parts, in their processes --------------------------------------------------


def test_all_parts_are_asked_for_and_told_at_once(parts, monkeypatch, capsys):
    monkeypatch.delenv("HELPERS_QUIET", raising=False)
    told, asked = [], []

    def found(function, order, names, *limits):
        *limits, env = limits
        asked.append((function, names, limits))
        assert not any(Path(env["TORCHINDUCTOR_CACHE_DIR"]).iterdir())
        yield "", {"calls": 2, "trains": True}
        yield "capture", asdict(Part("capture", "good", "one"))
        told.append(capsys.readouterr().err)
        yield "silent", {"problem": "failed at: silent: it died", "ended": "SIGKILL"}
        told.append(capsys.readouterr().err)

    def apart(name, order):
        assert (order["trains"], order["timeout"]) == (True, 9.0)
        return Part(name, "good", "")

    parts(found)
    monkeypatch.setattr(report, "_apart", apart)
    only = ["capture", "silent", "composes", "start"]
    done = checkup(target("healthy"), only=only, timeout=9.0, memory=7)
    assert asked == [(".model:look", ["capture", "silent"], [9.0, 7])]
    assert {part.name for part in done.parts} == {*only}
    known = done.target, done.trains, done.calls
    assert known == ("broken_models.py:healthy", True, 2)
    assert told[0].startswith("4 parts, each at most 9 s\n")
    assert re.search(r"\n✓ capture .* \w+: good, one\n", told[0])
    assert re.fullmatch(r"✗ silent .* \w+: failed.*it died\n", told[1])


def test_a_gpu_is_asked_for_and_training_needs_a_loss(parts):
    def found(function, order, names, *_):
        yield "", {"calls": 1, "trains": False}
        yield from ((n, asdict(Part(n, "good", order["gpu"]))) for n in names)

    parts(found)
    done = checkup(target("healthy"), only=["gpu", "composes"], gpu="a100")
    assert [(p.name, p.verdict, p.says) for p in done.parts] == [
        ("composes", "not run", "nothing is trained: give a loss"),
        ("gpu", "good", "a100"),
    ]


def test_what_never_ends_is_not_waited_for_in_each_part_anew(parts):
    asked = []

    def found(function, order, names, timeout, *_):
        asked.append((names, timeout))
        if "matches" in names:
            yield "matches", {"problem": "not done after 90 seconds", "ended": "time"}
        yield from ((name, {}) for name in names if "matches" not in names)

    parts(found)
    order = {"target": target("healthy"), "timeout": 90.0, "memory": None}
    names = ["matches", "capture", "silent", "next"]
    assert [name for name, _ in report._found(names, order, {})] == names
    assert asked == [(names, 90.0), (names[1:], 30.0)] and order["timeout"] == 30.0


@pytest.mark.parametrize(
    ("name", "running", "how", "verdict"),
    [
        ("matches", "compiled", "SIGSEGV", "bad"),
        ("matches", "the build", "SIGSEGV", "bad"),
        ("matches", "compiled", "time", "bad"),
        ("matches", "the build", "time", "failed"),
        ("matches", "eager", "SIGSEGV", "failed"),
        ("speed", "compiled", "SIGSEGV", "failed"),
    ],
)
def test_what_ends_the_process_only_when_compiled_is_bad(name, running, how, verdict):
    part = ended_part(name, f"failed at: {name}: it died", running, how)
    assert part.verdict == verdict and "it died" in part.says
    wrong = [(d.field, d.eager, d.compiled, d.ended) for d in part.differences]
    assert wrong == [("raises", "runs", "it died", how)] * (verdict == "bad")


def test_a_wrong_answer_is_searched_for_unless_that_is_left_out(parts, monkeypatch):
    wrong = Difference(1, "output[0]", "values", "1", "2")
    part = Part("matches", "bad", "", differences=(wrong,))
    news = [("", {"trains": False, "calls": 1}), ("matches", asdict(part))]
    looked = Where(1, "output[0]", "values", "1", "2", stage="inductor")
    parts(lambda *_: iter(news))
    monkeypatch.setattr(where, "searched", lambda *_: looked)
    found = checkup(target("healthy"), only=["matches"])["matches"]
    assert found.where == looked
    found = checkup(target("healthy"), only=["matches"], search=False)["matches"]
    assert found.where is None and found.advice == ()


# --- parts with processes of their own ----------------------------------------------


def test_it_is_paid_back_from_the_cold_first_call_where_that_was_timed(
    parts, monkeypatch
):
    counts = {"eager_s": 2.0, "compiled_s": 1.0}
    speed = report.paid_back(Part("speed", "good", "2x", counts), 3.0, "full cache")
    said = "2x; a first call of ⟨{}⟩ ({} cache) is paid back after ⟨{} calls⟩"
    assert speed.says == said.format("3 s", "full", 2)
    parts(lambda *_: iter([("", {"trains": False}), ("speed", asdict(speed))]))
    cold = Part("start", "good", "", {"first_s": 9.0})
    monkeypatch.setattr(report, "_apart", lambda *_: cold)
    found = checkup(target("healthy"), only=["speed", "start"])["speed"]
    assert found.says == said.format("9 s", "empty", 8)
    assert found.counts["paid_back"] == 8


@pytest.mark.parametrize(
    ("verdicts", "verdict", "unmet"),
    [
        ({"late hook": "differs", "state_dict": "raises"}, "good", 0),
        ({"autocast": "raises", "late hook": "differs"}, "look", 0),
        ({"scheduler": "differs"}, "bad", 1),
        ({"scheduler": "not done"}, "look", 0),
        (dict.fromkeys(SITUATIONS, "not done"), "cannot tell", 1),
    ],
)
def test_a_checkup_of_training_judges_what_is_this_models_own(verdicts, verdict, unmet):
    every = {**dict.fromkeys(SITUATIONS, "agrees"), **verdicts}
    situations = tuple(Situation(name, found, "") for name, found in every.items())
    found = Composition("m:make", situations)
    part = composing.verdict_on(found)
    looked = Checkup("m:make", (part,), True, 1)
    assert part.verdict == verdict
    assert len(looked.unmet("silently_different=0")) == unmet
    for name in verdicts:
        assert name in part.says


# --- the gate -----------------------------------------------------------------------


def first_words(lines):
    return [line.split(":")[0] for line in lines]


def test_requirements_are_held_against_the_counts():
    found = result(graphs=2, breaks=1, recompiles=3, matches=False)
    assert found.unmet("graphs=2, breaks<2, recompiles<=3, recompiles>=3") == []
    rules = "graphs=1,breaks=0,recompiles<3,matches,kernels<5"
    assert first_words(found.unmet(rules)) == rules.split(",")
    with pytest.raises(AssertionError, match="breaks=0: it is 1"):
        found.require("breaks=0")
    for rule in ("speed=fast", "speedup>1..2"):
        with pytest.raises(InputError, match=f"'{rule}' is no requirement"):
            found.require(rule)


USUAL = {"breaks": 0, "kernels": 2, "matches": True, "speedup_low": 1.8}
USUAL |= {"guards": "a; b", "compiled": True, "found_in_cache": 2, "limit_hit": False}
WORSE = [  # what is found now, and what became worse
    ({"speedup_high": 1.9, "guards": "a", "found_in_cache": 1}, []),
    ({"guards": ""}, []),
    ({"breaks": 1, "kernels": 3}, ["breaks", "kernels"]),
    ({"matches": False, "compiled": False}, ["matches", "compiled"]),
    ({"limit_hit": True, "found_in_cache": 0}, ["limit_hit", "found_in_cache"]),
    ({"guards": "c"}, ["guards that fail"]),
    ({"speedup_high": 1.2}, ["speedup"]),
]


@pytest.mark.parametrize(("now", "worse"), WORSE)
def test_what_became_worse_is_named(now, worse):
    assert first_words(result(**USUAL | now).worse_than(result(**USUAL))) == worse


# --- the terminal, the page, JSON ---------------------------------------------------


MANY = tuple(Difference(n, "output", "dtype", "int8", "int64") for n in range(1, 15))
LONG = Table.of(["n", "x"], [(str(n), "⟨x  y⟩") for n in range(30)])


def test_what_differs_stands_in_the_terminal_and_on_the_page_and_comes_back(tmp_path):
    looked = Where(1, "output", "dtype", "int8", "int64", stage="inductor")
    part = Part("matches", "bad", "a <b>", {"matches": False}, (LONG, "one\ntwo & "))
    part = replace(part, differences=MANY, where=looked, advice=("write & run",))
    found = Checkup("mine:make", (part,), False, 1, interrupted=True)
    rows = re.findall(r"^(\d+) +output +dtype  int8   int64$", str(found), re.M)
    assert [*map(int, rows)] == [*range(1, 13)] and "and 2 more" in str(found)
    page = found.to_html()
    assert page.startswith("<!doctype html>")
    assert len(re.findall(r"<td>int64</td>", page)) == 14
    assert len(re.findall(r"<tr><td>\d+</td><td>x  y</td>", page)) == 30
    assert page.count("<details>") == 3, "what the words mean, and two long tables"
    assert "&lt;b&gt;" in page and "two &amp; " in page and "write &amp; run" in page
    assert "<script" not in page and "http" not in page and "Interrupted" in page
    assert Checkup.from_json(found.to_json()) == found
    assert load(found.save(tmp_path / "found.json")) == found


def test_it_names_each_lesson_as_it_is_called_and_links_it_on_a_site(monkeypatch):
    parts = tuple(Part(name, "good", "") for name in QUESTIONS)
    found = Checkup("mine:make", parts, False, 1)
    monkeypatch.delenv("TORCH_CHECKUP_COURSE", raising=False)
    named = re.findall(
        r"<p>Lesson (\w+) \(torch-checkup explain (\w+)\)", found.to_html()
    )
    files = {path.stem for path in notebooks()}
    assert [part for _, part in named] == [*QUESTIONS]
    for page, part in named:
        assert page in files and page in report.about(part)
        assert max(map(len, report.about(part).splitlines())) < 80
    monkeypatch.setenv("TORCH_CHECKUP_COURSE", "https://course.example/a&b/")
    assert '<a href="https://course.example/a&amp;b/05_how_do' in found.to_html()


def test_its_readme_names_each_part_and_fact():
    text = (ROOT / "torch_checkup" / "README.md").read_text("utf-8")
    named = set(re.findall(r"`([\w.]+)`", text))
    assert {*QUESTIONS, *NAMES} <= named
    for question in QUESTIONS.values():
        assert f"| {question.asks}" in text
