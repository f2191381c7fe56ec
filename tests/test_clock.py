"""Blocks on a clock that the test controls, and what the system tells."""

import gc
import os
import sys

import pytest
import torch

from helpers import clock
from helpers.clock import Plan, block


class FakeClock:
    """Time passes only when a function says so; each sample may be disturbed."""

    sample_s = clock.WallClock.sample_s

    def __init__(self, extra=lambda sample: 0.0):
        self.time, self.samples, self.extra = 0.0, 0, extra

    def now(self):
        return self.time

    def spend(self, seconds):
        self.time += seconds

    def sample(self, call, calls):
        start = self.time
        for _ in range(calls):
            call()
        self.time += self.extra(self.samples)
        self.samples += 1
        return self.time - start


def test_plans_make_samples_of_equal_duration():
    for seconds in (1e-6, 1e-5, 1e-4, 1e-3, 5e-3):
        plan = Plan.for_call(seconds)
        if seconds < clock.WallClock.sample_s:
            assert plan.calls * seconds == pytest.approx(
                clock.WallClock.sample_s, rel=0.01
            )
        assert plan.samples >= 3
    assert Plan.for_call(1.0) == Plan(1, 2)


def test_a_block_forgets_its_cold_start():
    fake = FakeClock(extra=lambda sample: 1.0 if sample < 4 else 0.0)
    found = block(fake, lambda: fake.spend(1e-3), Plan(1, 10))
    assert found.seconds == pytest.approx(1e-3)
    assert fake.samples == 10


def test_a_block_forgets_interruptions_but_not_a_slow_function():
    fake = FakeClock(extra=lambda sample: 1.0 if sample % 3 == 0 else 0.0)
    found = block(fake, lambda: fake.spend(2e-3), Plan(5, 20))
    assert found.seconds == pytest.approx(2e-3)


def test_two_samples_are_one_to_warm_and_one_that_counts():
    fake = FakeClock(extra=lambda sample: 1.0 if sample == 0 else 0.0)
    found = block(fake, lambda: fake.spend(0.5), Plan.for_call(0.5))
    assert found.seconds == pytest.approx(0.5)


def test_wall_clock_counts_every_call():
    seen = []
    assert clock.WallClock().sample(lambda: seen.append(1), 7) > 0
    assert len(seen) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_threads_are_pinned_and_put_back():
    before = {t: os.sched_getaffinity(int(t)) for t in os.listdir("/proc/self/task")}
    places = []
    with clock.pinned_threads() as pinned:
        for tid in os.listdir("/proc/self/task"):
            places.append(len(os.sched_getaffinity(int(tid))))
    if pinned:
        assert places.count(1) >= torch.get_num_threads()
    else:
        cores = len(os.sched_getaffinity(0))
        assert torch.get_num_threads() == 1 or torch.get_num_threads() > cores
    for tid, cores in before.items():
        assert os.sched_getaffinity(int(tid)) == cores


def test_pinning_survives_a_system_that_forbids_it(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    with clock.pinned_threads() as pinned:
        assert not pinned or torch.get_num_threads() > 1


def test_garbage_is_not_collected_in_the_middle():
    assert gc.isenabled()
    with clock.quiet_interpreter():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(sys.platform != "linux", reason="needs getrusage and glibc")
def test_fresh_pages_are_seen():
    found = clock.page_faults(lambda: torch.ones(8 << 20))
    assert found.count > 1000
    assert clock.page_faults(lambda: 1 + 1).count < 256


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_peak_memory_counts_what_a_call_holds_at_once():
    def two_arrays():
        x = torch.ones(16 << 20)
        return x, x + 1

    two_arrays()  # what the allocator keeps from here must not hide the next
    found = clock.peak_bytes(two_arrays, "cpu")
    assert found is None or found == pytest.approx(128 << 20, rel=0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_peak_memory_of_small_arrays_is_not_hidden_by_the_allocator():
    def several():
        return [torch.ones(1 << 18) for _ in range(8)]

    several()
    found = clock.peak_bytes(several, "cpu")
    assert found is None or found == pytest.approx(8 << 20, rel=0.25)
