"""What is told of where a wrong answer comes from, and the files that are written."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from tests.refresh import ROOT
from torch_checkup import where
from torch_checkup.__main__ import main
from torch_checkup.checkups import Checkup, Part
from torch_checkup.differences import Difference
from torch_checkup.guest import ADVICE, FRUGAL, folders_of
from torch_checkup.helpers.errors import InputError
from torch_checkup.helpers.results import Machine
from torch_checkup.where import Files, Where

FOUND = Where(1, "output[0]", "dtype", "bfloat16", "int64", stage="inductor")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, ""),
        ({"stage": "aot_eager"}, "; first wrong in AOTAutograd (backend aot_eager)"),
        (
            {
                "stage": "inductor",
                "step": "lowering mm",
                "kernel": "cpp_fused_0",
                "module": "self.head",
                "file": "mine.py",
                "line": 7,
            },
            "; first wrong in inductor, lowering mm, at self.head, mine.py:7; kernel "
            "cpp_fused_0",
        ),
        (
            {"piece": 2, "still_fails": True, "lines": 1, "notes": ("but see",)},
            "; 2 operations together; alone, a program of 1 line still fails (--repro "
            "keeps it); but see",
        ),
        ({"piece": 2}, ""),
        (
            {"piece": 1, "still_fails": False, "lines": 9},
            "; alone, a program of 9 lines does not fail (--repro keeps it)",
        ),
        ({"often": (1, 3)}, "; wrong in 1 of 3 runs"),
        ({"often": (3, 3)}, ""),
        ({"often": (0, 3)}, ""),
    ],
)
def test_what_is_known_is_told_in_a_sentence(more, says):
    found = replace(FOUND, **{"stage": "", **more})
    assert str(found) == f"output[0]: dtype int64, eager's bfloat16{says}"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (("output", "values", "1", "2"), "output: values ⟨2⟩, eager's ⟨1⟩"),
        (("output", "nan/inf", "0", "3"), "output: nan/inf ⟨3⟩, eager's ⟨0⟩"),
        (("the call", "raises", "runs", "E: no"), "the call: E: no, eager runs"),
        (("the call", "exception", "A", "B"), "the call: B, eager A"),
    ],
)
def test_what_differs_is_told_in_words(found, says):
    assert Where(1, *found).what == says


def test_a_process_of_its_own_is_asked_with_limits_and_news_are_added(
    tmp_path, monkeypatch
):
    asked = []

    def reports(child, order, *limits, **how):
        cache = Path(order.pop("cache"))
        assert cache.is_dir() and not any(cache.iterdir())
        asked.append((child, order, limits, how))
        yield {"where": {"stage": "inductor"}}
        yield {"where": {"step": "lowering", "seconds": 2.0}, "stage": "s"}

    monkeypatch.setattr(where.children, "reports", reports)
    sought = Difference(2, "output", "values", "1", "2")
    given = {"target": f"{tmp_path / 'mine.py'}:make"}
    found = where.searched(sought, given, 9.0, 7, tmp_path)
    more = {"stage": "inductor", "step": "lowering", "seconds": 2.0}
    assert found == Where(2, "output", "values", "1", "2", **more)
    order = {**given, "memory": 7, "difference": asdict(sought)}
    order |= {"seconds": 9.0, "keep": str(tmp_path)}
    how = {"env": FRUGAL, "path": folders_of(given["target"]), "advice": ADVICE}
    child = "torch_checkup.where_child"
    assert asked == [(child, order, (9.0, 7), how)]
    eats = replace(sought, ended="memory")  # and so does a program of the search
    where.searched(eats, given, 9.0, 7, tmp_path)
    assert asked[1][2] == (9.0, 14) and asked[1][1]["memory"] == 7


def test_a_search_that_is_ended_has_told_what_it_knew(tmp_path, monkeypatch):
    def reports(*_, **__):
        yield {"where": {"trying": "inductor", "doing": "it was compiled"}}
        problem = "failed at: s: its process died of SIGSEGV"
        yield {"stage": "s", "problem": problem, "ended": "SIGSEGV"}

    monkeypatch.setattr(where.children, "reports", reports)
    died = "the call", "raises", "runs", "its process died of SIGSEGV"
    sought = Difference(1, *died, ended="SIGSEGV")
    order = {"target": f"{tmp_path / 'mine.py'}:make"}
    found = where.searched(sought, order, 1.0, None, tmp_path)
    assert found.stage == "inductor"
    died = "its process died of SIGSEGV"
    assert found.notes == (f"not narrowed further: {died}, it was compiled",)


def test_only_the_end_that_is_sought_tells_the_stage(tmp_path, monkeypatch):
    """A search for a wrong value may die where it compiles with another backend."""

    def reports(*_, **__):
        yield {"where": {"trying": "aot_eager"}}
        problem = "failed at: s: its process died of SIGSEGV"
        yield {"stage": "s", "problem": problem, "ended": "SIGSEGV"}

    monkeypatch.setattr(where.children, "reports", reports)
    sought = Difference(1, "output", "values", "1", "2")
    order = {"target": f"{tmp_path / 'mine.py'}:make"}
    assert where.searched(sought, order, 1.0, None, tmp_path).stage == ""


def test_it_comes_back_from_json_inside_its_part():
    found = where.Where(1, "output[0]", "dtype", "bfloat16", "int64", stage="inductor")
    part = Part("matches", "bad", "differs", where=found)
    whole = Checkup("mine.py:make", (part,), False, 1)
    assert Checkup.from_json(whole.to_json())["matches"].where == found


# --- files ------------------------------------------------------------------------


def test_files_are_written_together(tmp_path):
    kept, home = tmp_path / "kept", tmp_path / "home"
    kept.mkdir()
    (kept / "repro.pt").write_bytes(b"numbers")
    texts = {"repro": "import torch\n", "test": "def test_it(): ...\n"}
    found = replace(FOUND, **texts, files=("repro.pt",), still_fails=True)
    files = Files(home, home / "test_it.py", home / "issue.md")
    files.check()
    assert files.write(found, kept) == found
    assert {path.name for path in home.iterdir()} == {
        *("repro.py", "repro.pt", "test_it.py", "issue.md")
    }
    assert (home / "repro.py").read_text() == texts["repro"]
    assert (home / "test_it.py").read_text() == texts["test"]
    assert (home / "repro.pt").read_bytes() == b"numbers"
    assert (home / "issue.md").read_text() == where.issue(found)
    lacks = "it loads repro.pt, which --repro FOLDER keeps"
    assert Files().write(found, kept).notes == (lacks,)
    only_issue = Files(issue=tmp_path / "issue.md")
    assert only_issue.write(found, kept).notes == (lacks,)
    assert Files(home).write(FOUND, kept) == FOUND  # it has no program


def test_a_draft_tells_versions_and_no_name_of_a_person_or_host():
    import getpass
    import platform

    draft = where.issue(FOUND)
    assert f"- torch: {torch.__version__}" in draft and "inductor" in draft
    for word in (platform.node(), str(Path.home()), f"/{getpass.getuser()}/"):
        assert word not in draft


def test_a_draft_has_all_that_is_known(monkeypatch):
    known = {"stage": "inductor", "step": "lowering mm", "kernel": "cpp_0", "piece": 2}
    known |= {"often": (1, 3), "notes": ("but see",), "still_fails": True}
    found = replace(FOUND, **known, field="values", repro="import torch\n\n")
    here = replace(Machine.here(), torch="2.13", triton=None, python="3.11", system="L")
    monkeypatch.setattr(where.Machine, "here", lambda: here)
    assert (
        where.issue(found)
        == """\
# torch.compile: output[0]: values int64, eager's bfloat16

## Where

- first wrong backend: inductor
- step: lowering mm
- kernel: cpp_0
- operations: 2
- wrong in: 1 of 3 runs
- but see

## Repro, which fails in a process of its own

```python
import torch
```

## Versions

- torch: 2.13
- python: 3.11
- system: L
"""
    )
    for still, says in ((False, "does not fail by itself"), (None, "was not run")):
        draft = where.issue(replace(FOUND, still_fails=still))
        assert f"## Repro, which {says} in a process of its own" in draft
        assert "wrong in" not in draft and "operations" not in draft


@pytest.mark.parametrize("option", ["--repro", "--emit-test", "--issue"])
def test_a_place_that_cannot_be_written_is_told_at_once(option, tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    target = f"{ROOT / 'tests' / 'torch_checkup' / 'sick_models.py'}:healthy"
    assert main([target, option, str(file / "inside")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    for one in (
        {"test": tmp_path},
        {"repro": file},
        {"issue": tmp_path / "file" / "i"},
    ):
        with pytest.raises(
            InputError, match="cannot be written: name a place that can"
        ):
            Files(**one).check()
    Files(tmp_path / "a" / "b", tmp_path / "c" / "test.py", tmp_path / "i.md").check()
    assert [*tmp_path.iterdir()] == [file]
