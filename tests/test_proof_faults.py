"""Broken compilers are noticed: a sample of them.

All faults, and the notebook that notices each, are in data/proofs/README.md;
`python -m tests.proof faults` runs them.
"""

import nbformat
import pytest

from tests import records
from tests.proof.broken import FAULTS
from tests.proof.faults import NOBODY, look, row
from tests.refresh import key_of, pages

PATHS = {key_of(path): path for path in pages()}
# Two that a page notices within seconds; `make proof` plants all of them.
SAMPLE = ("compiler switched off", "mark_dynamic ignored")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_broken_compiler_is_noticed(name, tmp_path):
    """`tests.strict` shows that a healthy one isn't."""
    known = records.kept("proofs/faults", "fault")[name]
    found = look(FAULTS[name], [PATHS[known["noticed by"]]], tmp_path)
    assert found and row(FAULTS[name], found)["noticed by"] == known["noticed by"]


def test_what_is_recorded_is_still_in_the_notebooks():
    """A claim that was reworded needs a new run of its fault."""
    rows = records.read("proofs/faults")["rows"]
    assert {row["fault"] for row in rows} <= {*FAULTS, "nothing broken"}
    for each in rows:
        assert each["noticed by"] != NOBODY or each["fault"] == "nothing broken"
        if each["kind"] != "claim":
            continue
        path = PATHS[each["noticed by"]]
        again = f"python -m tests.proof faults --fault {each['fault']!r}"
        source = " ".join(
            " ".join(c.source for c in nbformat.read(path, 4).cells).split()
        )
        claim = each["it said"].rstrip("…").partition(". ")[0]  # without its reason
        assert claim in source, f"{path.name}: run {again}"
