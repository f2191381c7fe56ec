"""The proof that lies are noticed can itself fail: planted lies, and one unnoticed."""

import json
import textwrap
import types

import pytest

from tests.proof import coverage, mutant_pool, mutants
from tests.proof.mutant_tests import Mutant
from tests.proof.mutants import wilson

SOURCE = textwrap.dedent(
    '''
    """A module with a tested and an untested function."""


    def tested(n: int | None = None) -> bool:
        """Return whether there are many."""
        if n is None:
            raise ValueError("how many of them " + str(3))
        return n > 3


    def untested(a, b):
        return a - b
    '''
)
TEST = textwrap.dedent(
    """
    import pytest
    from helpers import example

    def test_it():
        assert [example.tested(n) for n in (3, 4)] == [False, True]
        with pytest.raises(ValueError):
            example.tested()
    """
)


class Planted:
    """The lies that mutmut would tell about SOURCE."""

    lies = (
        ("return n > 3", "return n >= 3"),
        ("return n > 3", "return n > 4"),
        ("return a - b", "return a + b"),
        ("if n is None", "if n is not None"),
        ("n: int", "n = missing, m: int"),  # cannot be imported
    )

    def __init__(self, source):
        self.source = source

    def __len__(self):
        return len(self.lies)

    def drawn(self, seed):
        for true, lie in self.lies:
            line = self.source.partition(true)[0].count("\n") + 1
            yield Mutant(line, self.source.replace(true, lie))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one helper and its test, and nothing kept from before."""
    for name, text in {
        "helpers/__init__.py": "",
        "helpers/example.py": SOURCE,
        "tests/test_example.py": TEST,
    }.items():
        path = tmp_path / "course" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def copy_example(folder):
        for part in ("helpers", "tests"):
            mutant_pool.shutil.copytree(tmp_path / "course" / part, folder / part)
        own = mutant_pool.ROOT / "tests" / "proof"
        mutant_pool.shutil.copytree(own, folder / "tests" / "proof")
        (folder / "tests" / "__init__.py").write_text("")

    monkeypatch.setattr(mutant_pool, "copy_course", copy_example)
    monkeypatch.setenv("MUTANT_PRELOAD", "json")  # torch is not needed here
    monkeypatch.setattr(mutants, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(mutants, "mutants_of", Planted)
    monkeypatch.setattr(mutants, "TESTS", {"example": "example"})
    monkeypatch.setattr("tests.proof.common.FOLDER", tmp_path / "proofs")
    return tmp_path


def outcomes(course):
    held = json.loads((course / "kept" / "example.json").read_text())["found"]
    return {
        one["diff"].splitlines()[-1]: (one["outcome"], one["by"])
        for one in held.values()
    }


def test_lies_of_a_tested_function_are_killed_and_others_survive(course, capsys):
    mutants.main(["example", "--sample", "2"])
    first = outcomes(course)
    assert len(first) == 2
    mutants.main(["example", "--all"])
    second = outcomes(course)
    assert second.pop("+def tested(n = missing, m: int | None = None) -> bool:") == (
        *("unfit", ""),
    )
    by = ("killed", "tests/test_example.py::test_it")
    assert (
        second
        == {
            "+    return n > 4": by,
            "+    return n >= 3": by,
            "+    if n is not None:": by,
            "+    return a + b": ("survived", ""),
        }
        and first.items() < second.items()
    )
    said = capsys.readouterr().out
    assert "survived: helpers/example.py:13\n@@ -13 +13 @@\n" in said
    assert "-    return a - b\n+    return a + b" in said
    row, total = json.loads((course / "proofs" / "mutants.json").read_text())["rows"]
    assert row == {
        "module": "helpers/example.py",
        "mutants": 5,
        "drawn": 4,
        "killed": 3,
        "share": "75%",
        "95 % interval": "30% to 95%",
        "seed": 1,
    }
    assert total == {**row, "module": "all", "seed": ""}


def test_what_is_known_is_not_tried_again(course, monkeypatch):
    class Known(mutants.Kept):
        def get(self, mutant):
            return {"outcome": "killed", "by": "", "line": mutant.line, "diff": ""}

    def never(*_, **__):
        raise AssertionError("all of these are known")

    monkeypatch.setattr(mutants, "Kept", Known)
    monkeypatch.setattr(mutants.Baseline, "of", never)
    mutants.main(["example", "--all"])
    rows = json.loads((course / "proofs" / "mutants.json").read_text())["rows"]
    assert [row["killed"] for row in rows] == [5, 5]


def test_survivors_are_tried_again_when_the_tests_have_changed(tmp_path):
    module = types.SimpleNamespace(name="example", texts=["old"])
    kept = mutants.Kept(module, tmp_path)
    for number, outcome in enumerate(("killed", "survived", "timeout", "unfit")):
        kept.add(Mutant(number, str(number)), {"outcome": outcome})
    assert len(mutants.Kept(module, tmp_path).found) == 4
    module.texts = ["new"]
    again = mutants.Kept(module, tmp_path).found.values()
    assert [one["outcome"] for one in again] == ["killed", "unfit"]


def test_a_mutant_gets_the_tests_of_its_function_the_quickest_first():
    module = object.__new__(mutants.Module)
    module.path, module.source = "helpers/example.py", SOURCE
    module.seconds = {"slow": 20.0, "quick": 1.0, "other": 0.1, "line": 15.0}
    module.lines = {"slow": {7, 9}, "quick": {7}, "other": {13}, "line": {9}}
    assert module.chosen(9) == ["line", "slow", "quick"]
    assert module.chosen(13) == ["other"]
    assert module.chosen(5) == ["quick", "line", "slow"]  # the default of an argument
    assert module.chosen(2) == ["other", "quick", "line", "slow"]
    job = module.job(Mutant(9, "text"))
    assert job["tests"] == ["line"] and job["limit_s"] > 30  # with slow, above 30 s


def Mutants(source):
    pytest.importorskip("mutmut", reason="pip install --group proof")
    from tests.proof.mutation import Mutants

    return Mutants(source)


def texts(source):
    return [m.text.strip() for m in Mutants(source).drawn(1)]


def test_numbers_operators_and_words_are_changed():
    assert set(texts("x = 3")) == {"x = 4", "x = None"}
    assert "y = a - b" in texts("y = a + b")
    assert {'z = "XXwordXX"', 'z = "WORD"'} <= set(texts('z = "word"'))
    assert "    return 2" in "".join(texts("@property\ndef f(self):\n    return 1"))


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of\nmore than one line."""',
        "def f(x: int | None): pass",
        'def f():\n    raise ValueError("word", 3)',
        'print("two words")',
        "@cache(maxsize=3)\ndef f(): pass",
        "from a import b",
        "len(x, 3)",
    ],
)
def test_what_no_reader_could_be_misled_by_is_left_alone(source):
    assert not [t for t in texts(source) if "None)" not in t]


def test_the_draw_is_the_same_each_time_and_another_for_another_seed():
    found = [[m.text for m in Mutants(SOURCE).drawn(seed)] for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2] and {*found[0]} == {*found[2]}


def test_wilson_is_what_the_book_says():
    """Newcombe, *Statistics in Medicine* 17 (1998), table I, method 3."""
    for hits, n, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)
    assert wilson(0, 0) == (0, 1)


def test_coverage_counts_each_module_and_names_the_lines_none_ran():
    def summary(lines, run):
        share = 100 * run / max(lines, 1)
        return {"num_statements": lines, "covered_lines": run, "percent_covered": share}

    report = {
        "files": {
            "helpers/a.py": {"summary": summary(3, 2), "missing_lines": [7]},
            "helpers/empty.py": {"summary": summary(0, 0), "missing_lines": []},
        },
        "totals": summary(3, 2),
    }
    one, all_ = coverage.rows(report)
    assert one == {"module": "helpers/a.py", "lines": 3, "run": 2, "share": "66.7%"}
    assert all_["module"] == "all" and coverage.missing(report) == ["helpers/a.py: 7"]


def test_no_notebook_is_run_for_coverage():
    asked = coverage.tests()
    assert "tests/test_stats.py" in asked and "tests/test_notebooks.py" not in asked
    assert coverage.SOLUTIONS in asked
    for name in coverage.NOT_COUNTED.split():
        assert (mutant_pool.ROOT / "tests" / f"test_{name}.py").exists()
