"""Printed numbers against published ceilings: no number is refused below one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.ch30.limits import Chip, Plausible, plausible
from helpers.gpu import gpus

CHIPS = st.sampled_from(sorted(gpus.PEAKS))
SHARES = st.floats(0.01, 100).filter(lambda share: abs(share - 1) > 1e-6)


@given(CHIPS, SHARES, st.floats(1e-6, 1e3), st.integers(1, 64))
def test_a_ceiling_is_broken_beyond_all_of_it(name, share, seconds, chips):
    chip = Chip.find(name)
    broken = {
        "arithmetic": {"flops": share * chip.peak("float32") * seconds * chips},
        "bandwidth": {"moved": share * chip.bytes_per_s * seconds * chips},
        "memory": {"memory": share * chip.memory * chips},
    }
    for limit, needs in broken.items():
        result = plausible(name, seconds, **needs, dtype="float32", chips=chips)
        assert [one.name for one in result.limits] == [limit]
        assert result.limits[0].share == pytest.approx(share)
        assert result.broken == ((limit,) if share > 1 else ())
        assert result.verdict == ("impossible" if share > 1 else "not ruled out")
        assert Plausible.from_json(result.to_json()) == result


@pytest.mark.parametrize("name", sorted(gpus.PEAKS))
def test_a_peak_has_a_profile_a_source_and_a_date(name):
    chip = Chip.find(name)
    assert chip.memory == gpus.find(name).memory
    assert any(f", 20{year}" in chip.source for year in range(18, 25))
    assert 1e11 < chip.bytes_per_s < 1e13
    in_order = [*chip.peaks.values()]
    assert in_order == sorted(in_order)
    assert 1e12 < in_order[0] < in_order[-1] < 1e16
