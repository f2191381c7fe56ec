"""A sweep on a fake clock: which points, in which order, and what is kept."""

import pytest
import torch

from helpers.sweeps import Sweep, sweep
from tests.helpers.test_benchmark import spending
from tests.helpers.test_timing import FakeClock


def run(values=(1, 2, 4), error=None, clock=None, **options):
    """Return a sweep in which the ratio at size n is n; *error* comes at 4."""
    clock = clock or FakeClock()

    def make(n):
        if error and n == 4:
            raise error
        return *(spending(clock, 1e-4 * times) for times in (n, 1)), torch.ones(4)

    return sweep(make, values, parameter="size", clock=clock, **options)


def test_each_value_is_compared_with_what_was_made_for_it():
    found = run(unit="elements", names=("old", "new"))
    assert (found.parameter, found.unit, found.complete) == ("size", "elements", True)
    assert found.values == (1, 2, 4)
    assert [race.speedup for race in found.comparisons] == pytest.approx([1, 2, 4])


@pytest.mark.parametrize("values", [[], [1, 2, 1], [(1, 2)], [None]])
def test_values_that_make_no_sweep(values):
    with pytest.raises(ValueError, match=r"^a sweep needs different values"):
        run(values=values)


def test_an_interrupt_ends_it_and_keeps_what_is_done():
    part = run(error=KeyboardInterrupt())
    assert not part.complete and part.values == (1, 2)
    assert part.table().title == "interrupted: these points are finished"
    none = Sweep("size", "", (), (), False).table()
    assert none.headings == ("size", "a", "b", "speed-up") and not none.rows


def test_an_error_carries_the_points_before():
    with pytest.raises(RuntimeError, match="enough") as told:
        run(error=RuntimeError("enough"))
    assert told.value.sweep.values == (1, 2) and not told.value.sweep.complete
    assert "at size 4" in told.value.__notes__[0]
