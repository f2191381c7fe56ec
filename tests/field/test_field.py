"""A dozen programs of the field corpus, each by the part that it is about."""

import subprocess
from dataclasses import replace

import pytest
import torch

from tests.field import __main__ as field
from tests.field import tables
from tests.field.corpus import RAISED, Judgement, cases, judged, judged_by_words
from torch_checkup import checkup
from torch_checkup.report import Checkup, Part

DOZEN = (
    "a write through dropout's result",
    "a tensor made from a size",
    "a fill of a parameter's data before a count",
    "a dtype that eager refuses",
    "a counter in the model",
    "padding to at least sixteen",
    "an input that is not used, of any size",
    "a class defined inside",
    "a largest value taken out",
    "a print in a loop",
    "the smallest so far of nothing",
    "a list read while it grows",
)
REFERENCE = torch.__version__.startswith("2.13")


@pytest.mark.skipif(not REFERENCE, reason="the symptoms are those of torch 2.13")
@pytest.mark.parametrize("name", DOZEN)
def test_the_checkup_says_what_is_true(name, tmp_path):
    case = cases()[name]
    program = tmp_path / "program.py"
    program.write_text(case.code)
    # Where an answer goes wrong is looked for apart.
    found = checkup(f"{program}:make", only=[case.part], train=case.train, search=False)
    told = judged(case, found)
    assert told.verdict and told.cause, found
    if case.part != "matches":
        assert told.line in (None, True), found


def test_each_case_can_be_looked_up_and_names_a_line_that_is_there():
    for case in cases().values():
        assert case.report.startswith("https://github.com/"), case.name
        assert case.said and case.symptom and case.area, case.name
        assert not case.line or case.number, case.name
        assert case.healthy == (case.verdict == "good"), case.name
        assert case.healthy or case.cause, case.name
        compile(case.code, case.name, "exec")


def found_with(**verdicts):
    parts = (Part(name, verdict, "x") for name, verdict in verdicts.items())
    return Checkup("program.py:make", tuple(parts), False, 1)


def test_a_wrong_judgement_is_one():
    broken = cases()["a counter in the model"]
    cause = Part(
        "recompiles", "bad", "self.count", advice=(f"line {broken.number} of a",)
    )
    right = Checkup("program.py:make", (cause,), False, 1)
    assert judged(broken, right) == Judgement(True, True, True)
    assert judged(broken, found_with(recompiles="good")) == Judgement(
        False, False, False
    )
    beside = found_with(recompiles="bad", capture="bad")
    assert not judged(broken, beside).verdict  # a false alarm beside the truth
    assert judged(replace(broken, also=("capture",)), beside).verdict
    healthy = cases()["whether it is a dataclass"]
    assert judged(healthy, found_with(capture="good", matches="good")).verdict
    assert not judged(healthy, found_with(capture="good", matches="bad")).verdict


def test_words_of_torch_count_where_they_stand_and_not_for_answers():
    broken = cases()["a counter in the model"]
    text = (
        f"Recompiling function forward in program.py:{broken.number}\n self.count == 0"
    )
    assert judged_by_words(broken, text, "Recompiling") == Judgement(True, True, True)
    assert not judged_by_words(broken, "self.count", "Recompiling").cause
    wrong = cases()["a tensor made from a size"]
    assert not judged_by_words(wrong, "Recompiling shape", "Recompiling").verdict
    raised = judged_by_words(wrong, f"{RAISED} shape", "Recompiling")
    assert raised == Judgement(True, True, False)
    healthy = cases()["whether it is a dataclass"]
    assert not judged_by_words(healthy, "Recompiling f", "Recompiling").verdict


def row(name, verdict, cause, line):
    judgement = {"verdict": verdict, "cause": cause, "line": line}
    told = dict.fromkeys(("torch-checkup", "logs"), judgement)
    return {"program": name, "key": cases()[name].key, "says": {}, "tools": told}


ROWS = (
    row("a counter in the model", True, True, False),
    row("a tensor made from a size", True, False, False),
    row("whether it is a dataclass", False, True, None),
)


def test_rows_are_kept_one_by_one_and_forgotten_with_their_program(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(field, "KEPT", tmp_path / "field.json")
    monkeypatch.setattr(field, "run", lambda case: next(left))
    left = iter(ROWS[:1])
    with pytest.raises(StopIteration):  # as Ctrl-C in the second program
        field.main([row["program"] for row in ROWS])
    assert [*field.known()] == ["a counter in the model"]
    left = iter(ROWS[1:])
    field.main([row["program"] for row in ROWS[1:]])
    assert {*field.known()} == {row["program"] for row in ROWS}
    assert [*field.known()] == [name for name in cases() if name in field.known()]
    changed = replace(cases()["a counter in the model"], cause="another")
    monkeypatch.setitem(cases(), changed.name, changed)
    assert changed.name not in field.known()


def test_tables_count_issues_and_healthy_programs_apart():
    rows = {row["program"]: row for row in ROWS}
    totals = tables.totals(cases(), rows).splitlines()
    assert totals[2] == ("| `torch-checkup` | 2 of 2 | 1 of 2 | 0 of 2 | 0 of 1 |")
    assert totals[3].startswith("| `torch._dynamo.explain` | 0 of 0 |")
    text = tables.text(cases(), rows, "*here*")
    assert "misjudges 2: [a tensor made from a size](https://" in text
    assert "false alarm" in text and "| found, cause |" in text
    assert "changed: [a write through dropout's result](https://" in text


def test_a_row_names_the_commit_that_was_run_and_whether_the_code_was_changed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(field, "ROOT", tmp_path)
    code = tmp_path / "helpers" / "stats.py"
    code.parent.mkdir()
    code.write_text("")
    me = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*me, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    name = field.commit()
    assert len(name) == 7 and int(name, 16)
    code.write_text("changed = True\n")
    assert field.commit() == f"{name}+"
    rows = {"a": {"commit": name}, "b": {"commit": name}, "c": {}}
    assert f"{name} (2), none noted (1)." in tables.commits(
        rows
    ) and not tables.commits({})


def test_the_readme_has_the_tables_of_the_record():
    readme = field.README.read_text(encoding="utf-8")
    assert field.written(readme) == readme, "python -m tests.field --table"
