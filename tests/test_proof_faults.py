"""Broken compilers are noticed: a sample of them, and the machinery itself.

All faults, and the notebook that notices each, are in data/proofs/README.md;
`python -m tests.proof faults` runs them.
"""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.proof import common, faults, report
from tests.proof.broken import FAULTS, Fault, environment
from tests.proof.faults import CONTROL, look, row
from tests.proof.notice import notices
from tests.refresh import key_of, pages

PATHS = {key_of(path): path for path in pages()}
# A few that a page notices within seconds; `make proof` plants all of them.
SAMPLE = (
    "compiler switched off",
    "module guards skipped",
    "mark_dynamic ignored",
    "in-place compile a no-op",
    "reset forgets nothing",
    "numbers are compiled in",
    "numbers are not guarded",
    "autocast is ignored",
)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_broken_compiler_is_noticed(name, tmp_path):
    """`tests.strict` shows that a healthy one isn't."""
    [row] = [row for row in common.read("faults")["rows"] if row["fault"] == name]
    found = look(FAULTS[name], [PATHS[row["noticed by"]]], tmp_path)
    assert found


def test_what_is_recorded_is_still_in_the_notebooks():
    """A claim that was reworded needs a new run of its fault."""
    rows = common.read("faults")["rows"]
    assert {row["fault"] for row in rows} <= {CONTROL, *FAULTS}
    assert (common.FOLDER / "README.md").read_text("utf-8") == report.page()
    for fault in report.not_run(rows):  # none is left out in silence
        assert fault in report.page().split("Not run yet: ")[1].split("\n")[0]
    for each in rows:
        assert each["noticed by"] != faults.NOBODY or each["fault"] == CONTROL
        if each["kind"] != "claim":
            continue
        path = PATHS[each["noticed by"]]
        again = f"python -m tests.proof faults --fault {each['fault']!r}"
        source = " ".join(
            " ".join(c.source for c in nbformat.read(path, 4).cells).split()
        )
        assert each["it said"] in source, f"{path.name}: run {again}"


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
