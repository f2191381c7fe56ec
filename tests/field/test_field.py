"""One program of the field corpus: weekly, `python -m tests.field` runs them all."""

from dataclasses import replace

import pytest

from tests.field import __main__ as field
from tests.field.corpus import Judgement, cases, judged
from tests.refresh import not_the_reference
from torch_checkup import checkup
from torch_checkup.report import Checkup, Part

OTHER = not_the_reference()


@pytest.mark.skipif(bool(OTHER), reason=OTHER)
def test_the_checkup_says_what_is_true(tmp_path):
    case = cases()["a largest value taken out"]
    program = tmp_path / "program.py"
    program.write_text(case.code)
    found = checkup(f"{program}:make", only=[case.part], train=case.train)
    assert judged(case, found) == Judgement(True, True, True), found


def test_each_case_can_be_looked_up_and_names_a_line_that_is_there():
    for case in cases().values():
        assert case.report.startswith("https://github.com/"), case.name
        assert case.said and case.symptom and case.area, case.name
        assert not case.line or case.number, case.name
        assert case.healthy == (case.verdict == "good"), case.name
        assert case.healthy or case.cause, case.name
        compile(case.code, case.name, "exec")


def test_a_false_alarm_beside_the_truth_is_a_wrong_judgement():
    case = cases()["a counter in the model"]
    advice = (f"line {case.number} of a",)
    truth = Part("recompiles", "bad", "self.count", advice=advice)
    right = Checkup("program.py:make", (truth,), False, 1)
    assert judged(case, right) == Judgement(True, True, True)
    parts = (truth, Part("capture", "bad", "x"))
    beside = Checkup("program.py:make", parts, False, 1)
    assert not judged(case, beside).verdict
    assert judged(replace(case, also=("capture",)), beside).verdict


def test_the_readme_has_the_tables_of_the_record():
    kept = {path: path.read_text("utf-8") for path in (field.README, field.PAGE)}
    assert field.written() == kept, "python -m tests.field --table"
