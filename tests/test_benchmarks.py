"""The README's figures are those that a command of the repository recorded."""

import pytest

from tests.benchmarks import report
from tests.benchmarks.common import read


def test_the_readme_says_what_was_recorded():
    text = report.README.read_text(encoding="utf-8")
    assert report.render(text) == text, "run `python -m tests.benchmarks report`"
    changed = text.replace(report.section("aa"), report.section("aa") + " and more")
    assert changed != text and report.render(changed) == text
    with pytest.raises(ValueError, match="no place for aa"):
        report.render("nothing here")


@pytest.mark.parametrize("name", report.NAMES)
def test_every_figure_was_measured_and_says_where(name):
    kept = read(name)
    assert kept, f"python -m tests.benchmarks {name}"
    assert kept["machine"]["torch"] and kept["rows"]


def test_the_kernel_in_the_readme_is_what_is_dumped_now():
    pytest.importorskip("triton")
    import torch

    from tests.benchmarks import kernel

    kept = read("kernel")
    if kept["machine"]["torch"].split("+")[0] != torch.__version__.split("+")[0]:
        pytest.skip("recorded with another torch")
    assert kernel.shown() == kept["rows"][0]["shown"]
