"""Broken compilers are noticed: a sample of one, and the machinery itself.

All faults, and the notebook that notices each, are in data/proofs/README.md;
`python -m tests.proof faults` runs them.
"""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.proof import common, faults, mutants, report
from tests.proof.broken import FAULTS, Fault, environment
from tests.proof.faults import CONTROL, cache, look, row
from tests.proof.notice import notices
from tests.refresh import ROOT, notebooks


def path_of(number):
    return next(path for path in notebooks() if path.stem.startswith(number))


def test_a_broken_compiler_makes_a_claim_false(tmp_path):
    """`tests.strict` shows that a healthy one makes none."""
    found = look(FAULTS["module guards skipped"], [path_of("03")], tmp_path)
    assert [n.notebook for n in found if n.kind == "claim"][:1] == ["03"]


def test_what_is_recorded_is_still_in_the_notebooks():
    """A claim that was reworded or moved needs a new run of its fault."""
    rows = common.read("faults")["rows"]
    assert {row["fault"] for row in rows} <= {CONTROL, *FAULTS}
    assert (common.FOLDER / "README.md").read_text("utf-8") == report.page()
    for fault in report.not_run(rows):  # none is left out in silence
        assert fault in report.page().split("Not run yet: ")[1].split("\n")[0]
    for each in rows:
        assert each["noticed by"] != faults.NOBODY or each["fault"] == CONTROL
        if each["kind"] != "claim":
            continue
        path = path_of(each["noticed by"][:2])
        cell = nbformat.read(path, 4).cells[int(each["cell"].split(",")[0])]
        again = f"python -m tests.proof faults --fault {each['fault']!r}"
        source = " ".join(cell.source.split())
        assert each["it said"] in source, f"{path.name}: run {again}"


def test_a_fault_in_what_is_written_has_a_cache_of_its_own(tmp_path):
    own, shared = (
        cache(FAULTS[n], tmp_path) for n in ("wrong lowering", "logs silent")
    )
    assert shared == cache(None, tmp_path) != own


def test_a_module_counts_by_its_mutants_not_by_how_many_were_drawn():
    half = {"mutants": "10 of 40", "noticed": 5, "survived": 5}
    whole = {"mutants": "10 of 10", "noticed": 10, "survived": 0}
    total = mutants.total([half, whole])
    assert (total["mutants"], total["noticed"]) == ("20 of 50", 15)
    assert total["share"] == "60% (39% to 81%)"


def test_each_module_is_held_against_tests_that_are_there():
    every = [path for name in mutants.MODULES for path in (ROOT / name).rglob("*.py")]
    names = {path.relative_to(ROOT).as_posix() for path in every}
    left = names - {*mutants.every_module()}
    assert {name.rpartition("/")[2] for name in left} == {"__init__.py", "__main__.py"}
    for path in mutants.every_module():
        assert all((ROOT / tests).is_file() for tests in mutants.tests_of(path).split())


def changed(before, after):
    return f"# a.x_f__mutmut_1: survived\n--- a.py\n+++ a.py\n-  {before}\n+  {after}\n"


def test_a_survivor_that_is_the_same_program_is_told_from_one_that_is_not():
    zipped = "for x in zip(a, b, strict=True):"
    for after in (
        "zip(a, b, ):",
        "zip(a, b, strict=False):",
        "zip(a, b, strict=None):",
    ):
        assert mutants.same(changed(zipped, f"for x in {after}"))
    assert mutants.same(changed('read("utf-8")', 'read("UTF-8")'))
    assert not mutants.same(changed(zipped, "for x in zip(a, strict=True):"))
    assert not mutants.same(changed("a = b + 1", "a = b - 1"))
    assert not mutants.same(changed("a = b", "a = None"))


CLAIM = "from course import claim\nclaim('six by nine', {} == 42)"
IDLE = Fault("idle", "Nothing.", ("77",), "no patch")


def small(folder, *codes, printed=""):
    cells = [new_markdown_cell("# A title"), *map(new_code_cell, codes)]
    if printed:
        cells[-1].outputs = [new_output("stream", text=printed)]
    path = folder / "77_small.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_a_false_claim_an_error_and_another_output_are_told_apart(tmp_path):
    path = small(tmp_path, CLAIM.format(54), "1 / 0", "print(3)", printed="2\n")
    found = notices(path, environment(None))
    kinds = {notice.kind: notice for notice in reversed(found)}
    assert kinds["claim"].said == "six by nine" and kinds["claim"].number == 1
    assert kinds["error"].said.startswith("ZeroDivisionError")
    assert [n.said for n in found if n.number == 3] == ["3"]
    assert row(IDLE, found, 1)["kind"] == "claim"
    assert {n.number for n in notices(path, environment(None), to_end=False)} == {1}


def test_a_cell_that_hangs_is_reported(tmp_path):
    path = small(tmp_path, "import time\ntime.sleep(600)", "print(3)")
    [notice] = notices(path, environment(None), patience=2)
    assert notice.kind == "no end" and notice.number == 1


def test_a_fault_that_nobody_notices_makes_the_command_fail(
    tmp_path, monkeypatch, capsys
):
    path = small(tmp_path, CLAIM.format(42), printed="✓ holds: six by nine\n")
    monkeypatch.setattr(faults, "FAULTS", {"idle": IDLE})
    monkeypatch.setattr(faults, "notebooks", lambda: [path])
    monkeypatch.setattr(faults, "CACHES", tmp_path / "caches")
    monkeypatch.setattr(common, "FOLDER", tmp_path)
    monkeypatch.setattr(faults, "environment", lambda _: environment(None))
    assert faults.main(["--jobs", "1"]) == 1
    rows = common.read("faults")["rows"]
    assert [row["fault"] for row in rows] == [CONTROL, "idle"]
    assert {row["noticed by"] for row in rows} == {"no notebook"}
    assert "1 of 2 are as they should be idle" in capsys.readouterr().out


def test_two_runs_at_once_keep_the_rows_of_both(tmp_path, monkeypatch):
    other = {"fault": "idle", "noticed by": "01"}

    def meanwhile(*_):
        common.record("faults", [other])
        return []

    monkeypatch.setattr(faults, "FAULTS", {"idle": IDLE})
    monkeypatch.setattr(faults, "notebooks", list)
    monkeypatch.setattr(faults, "look", meanwhile)
    monkeypatch.setattr(common, "FOLDER", tmp_path)
    faults.main(["--jobs", "1", "--fault", CONTROL])
    assert [*common.kept("faults", "fault")] == [CONTROL, "idle"]
