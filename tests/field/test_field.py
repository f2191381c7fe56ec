"""A dozen programs of the field corpus, each by the part that it is about."""

from dataclasses import replace

import pytest

from tests.field import __main__ as field
from tests.field import tables
from tests.field.corpus import Judgement, cases, judged, judged_by_words
from tests.refresh import not_the_reference
from torch_checkup import checkup
from torch_checkup.report import Checkup, Part

DOZEN = (
    "a log that a local class keeps",
    "whole numbers to a negative power",
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
OTHER = not_the_reference()


@pytest.mark.skipif(bool(OTHER), reason=OTHER)
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
    advice = (f"line {broken.number} of a",)
    cause = Part("recompiles", "bad", "self.count", advice=advice)
    right = Checkup("program.py:make", (cause,), False, 1)
    assert judged(broken, right) == Judgement(True, True, True)
    nothing = judged(broken, found_with(recompiles="good"))
    assert nothing == Judgement(False, False, False)
    beside = found_with(recompiles="bad", capture="bad")
    assert not judged(broken, beside).verdict  # a false alarm beside the truth
    assert judged(replace(broken, also=("capture",)), beside).verdict


def test_words_of_torch_count_where_they_stand_and_not_for_answers():
    broken, wrong = map(
        cases().get, ("a counter in the model", "whole numbers to a negative power")
    )
    text = f"Recompiling forward in program.py:{broken.number}\n self.count == 0"
    assert judged_by_words(broken, text, "Recompiling") == Judgement(True, True, True)
    assert not judged_by_words(broken, "self.count", "Recompiling").cause
    assert not judged_by_words(wrong, "Recompiling raises", "Recompiling").verdict


def test_the_readme_has_the_tables_of_the_record():
    readme = field.README.read_text(encoding="utf-8")
    page = (field.README.parent / tables.PAGE).read_text(encoding="utf-8")
    assert field.written(readme) == (readme, page), "python -m tests.field --table"
