"""Published ceilings: each has a profile, a source and a date."""

import pytest

from course.ch30.limits import Chip
from helpers.gpu import gpus


@pytest.mark.parametrize("name", sorted(gpus.PEAKS))
def test_a_peak_has_a_profile_a_source_and_a_date(name):
    chip = Chip.find(name)
    assert chip.memory == gpus.find(name).memory
    assert any(f", 20{year}" in chip.source for year in range(18, 25))
    assert 1e11 < chip.bytes_per_s < 1e13
    in_order = [*chip.peaks.values()]
    assert in_order == sorted(in_order)
    assert 1e12 < in_order[0] < in_order[-1] < 1e16
