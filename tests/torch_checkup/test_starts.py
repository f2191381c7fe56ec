"""First calls in fresh processes: what is reported, and what is kept when one fails."""

import dataclasses
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from torch_checkup import starts
from torch_checkup.__main__ import main
from torch_checkup.guest import ADVICE, folders_of
from torch_checkup.helpers.errors import InputError, Unavailable
from torch_checkup.helpers.results import Result
from torch_checkup.records import components, phases
from torch_checkup.starts import ColdStart, Lookup, Start, Way, cold_start, one_start

MODEL = """
import torch

def make():
    return torch.nn.Linear(8, 8), (torch.ones(4, 8),)
"""
PHASES = {"Dynamo": 0.5, "AOTAutograd": 0.5, "Inductor": 1.0, "build": 8.0}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def lookup(kind="FxGraphCache", hits=1, misses=0, bypasses=0, **parts):
    return Lookup(kind, hits, misses, bypasses, (), parts)


def started(seconds=1.0, **fields):
    scaled = {name: s * seconds / 10 for name, s in PHASES.items()}
    given = {
        "first_s": seconds,
        "phases": scaled,
        "lookups": (lookup(),),
        "agrees": True,
        **fields,
    }
    return Start(**given)


def found(**ways):
    each = tuple(Way(name, tuple(s), 7) for name, s in ways.items())
    return ColdStart("model:make", each, False, {})


# --- what is made of the numbers ------------------------------------------------------


def test_the_share_saved_is_of_the_median_and_loading_counts():
    result = found(
        empty=[started(10), started(12), started(50)],
        warm=[started(3)],
        artifacts=[started(2, load_s=1.0)],
    )
    assert result.saved("warm") == result.saved("artifacts") == pytest.approx(0.75)
    assert result["empty"].span() == pytest.approx((10, 50))
    assert result["warm"].seconds("build") == pytest.approx(2.4)
    ended = Start(problem="it was ended")
    assert found(warm=[started(3), ended, ended])["warm"].seconds() == 3
    assert found(warm=[ended])["warm"].seconds() == 0
    with pytest.raises(KeyError, match="no way 'copied'"):
        result["copied"]


def test_text_form_and_json():
    result = found(empty=[started(10), started(12)], warm=[started(3, agrees=False)])
    text = str(result)
    assert "1 found" in text and "agree " in text and "DIFFER" in text
    assert "⟨11 s (10 s to 12 s)⟩" in text and "a second process" in text
    assert "<table>" in result._repr_html_()
    table = found(empty=[started(10)], copied=[started(problem="full")]).table()
    heads, rows = table.headings, table.rows
    assert heads == ("way", "caches", "answers", "built", "ships", "wait", "of which")
    assert rows[0] == (
        *("empty", "1 found", "agree", "⟨0⟩", "⟨7 B⟩", "⟨10 s⟩"),
        "⟨Dynamo 500 ms, AOTAutograd 500 ms, Inductor 1 s, build 8 s⟩",
    )
    assert rows[1][:3] == ("copied", "1 found", "full")
    assert Result.from_json(result.to_json()) == result


def test_which_part_of_the_key_missed():
    filled = started(lookups=(lookup(gm="a", threads="2"), lookup("AOT", gm="x")))
    other = started(lookups=(lookup(gm="a", threads="8", new="n"), lookup("AOT")))
    assert other.missed(filled) == ("threads", "new")
    assert filled.missed(filled) == ()
    result = found(empty=[filled], warm=[other], copied=[filled])
    assert result.missed() == {"warm": ("threads", "new")}
    assert "warm found less: other parts of its keys: threads, new" in str(result)
    lines = ["[abc] gm: <lambda>()\n\ndef f(x): y", "[def] config[a.b]: {'c': 1}"]
    assert components(lines) == {"gm": "abc", "config[a.b]": "def"}


def test_what_the_caches_were_asked_in_words():
    both = started(lookups=(lookup(hits=2), lookup(hits=0, misses=1, bypasses=3)))
    assert both.found == "2 found, 1 missed, 3 bypassed"
    assert Start().found == "not asked"


# --- which processes are started ------------------------------------------------------


def test_a_start_says_what_was_found_and_whether_it_is_right():
    for agrees, says in ((True, "agree"), (False, "DIFFER"), (None, "unknown")):
        assert str(started(agrees=agrees)) == f"1 found, answers {says}"
    assert str(started(problem="it died", agrees=None)) == "1 found, it died"


def test_each_way_has_its_folder_and_turns_alternate(model, monkeypatch, tmp_path):
    seen = []

    def pretend(order, place, timeout, load=None, save=None, env=None, memory=None):
        there = sorted(p.parent.name + "/" + p.name for p in place.rglob("*.txt"))
        seen.append((place.name, there, bool(load)))
        for name, what in (("cache", "12345"), ("temporary", "1234567")):
            (place / name).mkdir(parents=True, exist_ok=True)
            (place / name / "a.txt").write_text(what)
        if save:
            save.write_bytes(b"123")
        return started()

    monkeypatch.setattr(starts, "one_start", pretend)
    result = cold_start(f"{model}:make", starts.WAYS, repeat=2, folder=tmp_path)
    cache, both = ["cache/a.txt"], ["cache/a.txt", "temporary/a.txt"]
    assert seen == [
        ("filled", [], False),
        ("filled", both, False),
        ("new", cache, False),
        ("new", both, False),
        ("new", [], True),
        ("new", [], False),
        ("filled", both, False),
        ("new", cache, False),
        ("new", both, False),
        ("new", [], True),
    ]
    assert {way.name: way.ships for way in result.ways} == {
        "empty": 0, "warm": 0, "copied": 5, "image": 12, "artifacts": 3,
    }  # fmt: skip
    assert all(len(way.starts) == 2 for way in result.ways)
    assert [p.name for p in tmp_path.iterdir()] == ["model.py"]  # folders are removed


def test_all_processes_are_started_with_what_was_asked_for(model, monkeypatch, bar):
    seen = []

    def pretend(order, place, **how):
        seen.append((order, how["timeout"], how["env"], how["memory"]))
        return started()

    monkeypatch.setattr(starts, "one_start", pretend)
    how = {"timeout": 9.0, "env": {"A": "b"}, "memory": 7}
    result = cold_start(f"{model}:make", train=True, dynamic=True, **how)
    options = {"dynamic": True}
    order = {"target": f"{model}:make", "train": True, "options": options}
    assert seen == [(order, 9.0, {"A": "b"}, 7)] * 4
    assert (bar.made, bar.n) == (("starts", 4), 4)
    assert result.interrupted is False
    assert (result.target, result.train, result.options) == (
        *("model.py:make", True),
        options,
    )
    assert [way.name for way in result.ways] == ["empty", "warm", "copied", "artifacts"]


def test_a_start_has_its_folders_and_limits_and_counts_its_libraries(
    model, monkeypatch, tmp_path
):
    place, asked = tmp_path / "place", {}
    (place / "cache" / "deep").mkdir(parents=True)
    (place / "cache" / "old.so").touch()

    def reports(child, order, *limits, **how):
        asked.update(how, child=child, order=order, limits=limits)
        for name in ("one.so", "deep/two.so", "deep/two.cpp"):
            (place / "cache" / name).touch()
        yield from ({"stage": "load the artifacts", "load_s": 1.0}, {"first_s": 2.0})

    monkeypatch.setattr(starts.children, "reports", reports)
    order = {"target": f"{model}:make", "options": {"dynamic": True}}
    more = {"env": {"TMP": "mine", "A": "b"}, "memory": 7, "save": tmp_path / "saved"}
    start = one_start(order, place, 9.0, **more)
    assert start == Start(load_s=1.0, first_s=2.0, libraries=2)
    temporary = str(place / "temporary")
    assert asked == {
        "child": "torch_checkup.start_child",
        "order": {
            **order, "train": False, "load": "", "save": str(tmp_path / "saved"),
        },
        "limits": (9.0, 7),
        "env": {
            "TMPDIR": temporary, "TEMP": temporary, "TMP": "mine", "A": "b",
            "TORCHINDUCTOR_CACHE_DIR": str(place / "cache"),
        },
        "folder": place,
        "path": folders_of(f"{model}:make"),
        "advice": ADVICE,
    }  # fmt: skip
    assert Path(temporary).is_dir()


def test_an_interrupt_keeps_what_is_done_and_a_failure_the_others(model, monkeypatch):
    answers = [started(), started(problem="failed"), KeyboardInterrupt()]

    def pretend(order, place, timeout, env, memory, **__):
        assert (timeout, env, memory) == (600.0, None, None)
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(starts, "one_start", pretend)
    result = cold_start(f"{model}:make")
    assert [way.name for way in result.ways] == ["empty", "warm"]
    assert result.interrupted and "interrupted" in str(result)
    assert result["warm"].problem == "failed"
    answers += [KeyboardInterrupt(), started(problem="no weights")]
    with pytest.raises(KeyboardInterrupt):
        cold_start(f"{model}:make")
    with pytest.raises(InputError, match="make: no weights"):
        cold_start(f"{model}:make")


def test_a_copy_that_does_not_fit_is_told_and_the_others_are_kept(model, monkeypatch):
    def full(source, target):
        said = f"[Errno 28] No space left on device: '{source}' -> '{target}'"
        raise shutil.Error([(str(source), str(target), said)] * 9)

    def pretend(order, place, *_, **__):
        (place / starts.CACHE).mkdir(parents=True, exist_ok=True)
        return started()

    monkeypatch.setattr(starts, "one_start", pretend)
    monkeypatch.setattr(starts.shutil, "copytree", full)
    result = cold_start(f"{model}:make", ["empty", "copied", "artifacts"])
    assert [way.problem for way in result.ways if way.name != "copied"] == ["", ""]
    assert result["copied"].problem == (
        "failed at: copy the cache: OSError: [Errno 28] No space left on device. "
        "The disk is full: free some, or name another with folder="
    )


# --- what cannot work ----------------------------------------------------------------


def test_ways_and_repeat_are_checked(model):
    with pytest.raises(ValueError, match="ways are some of empty"):
        cold_start(f"{model}:make", ["lukewarm"])
    with pytest.raises(ValueError, match="ways"):
        cold_start(f"{model}:make", [])
    with pytest.raises(ValueError, match="repeat"):
        cold_start(f"{model}:make", repeat=0)


def test_a_folder_that_cannot_be_written(model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="name a folder that can be written"):
        cold_start(f"{model}:make", folder=tmp_path / "file")


def test_no_processes_to_be_had(model, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(Unavailable, match="no process can be started"):
        cold_start(f"{model}:make", folder=tmp_path)


def test_phases_of_some_compiles_are_those_of_their_records():
    whole = {"dynamo": 9, "aot_autograd": 7, "inductor": 4}
    fields = {
        f"{name}_cumulative_compile_time_us": s * 1e6 for name, s in whole.items()
    }
    record = SimpleNamespace(**fields, triton_compile_time_us=1e6)
    found = phases([record, record])
    assert found == {"Dynamo": 4, "AOTAutograd": 6, "Inductor": 6, "build": 2}


def test_the_command_says_what_is_wrong(model, capsys, monkeypatch):
    assert main(["cold-start", "nowhere"]) == 2
    assert "names no function" in capsys.readouterr().err
    result = found(empty=[started()])
    monkeypatch.setattr(starts, "cold_start", lambda *_, **__: result)
    assert main(["cold-start", "model:make"]) == 0
    assert "nothing was ever compiled" in capsys.readouterr().out
    result = dataclasses.replace(result, interrupted=True)
    assert main(["cold-start", "model:make"]) == 2
