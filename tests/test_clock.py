"""Blocks on a clock that the test controls, and what the system tells."""

import contextlib
import gc
import os
import re
import subprocess
import sys
import threading
import time

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
    if not 1 < torch.get_num_threads() <= len(os.sched_getaffinity(0)):
        pytest.skip("needs several threads, and a core for each")
    before = affinities()
    for _ in range(40):  # on a busy machine the workers may not be recognised at once
        with clock.pinned_threads() as pinned:
            places = [cores for cores in affinities().values() if len(cores) == 1]
        assert before.items() <= affinities().items()
        if pinned:
            break
    assert len(places) == len(set(map(tuple, places))) == torch.get_num_threads()


def affinities():
    found = {}
    for tid in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):
            found[tid] = os.sched_getaffinity(tid)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_a_thread_that_starts_meanwhile_is_not_left_on_one_core(monkeypatch):
    usual, own = os.sched_getaffinity(0), threading.get_native_id()
    end = threading.Event()
    monkeypatch.setattr(clock, "_places", lambda: {own: min(usual)})
    young = threading.Thread(target=end.wait)
    with contextlib.suppress(KeyboardInterrupt), clock.pinned_threads() as pinned:
        assert pinned and os.sched_getaffinity(0) == {min(usual)}
        young.start()
        raise KeyboardInterrupt
    try:
        assert os.sched_getaffinity(young.native_id) == os.sched_getaffinity(0) == usual
    finally:
        end.set()
        young.join()


@pytest.mark.parametrize(
    ("siblings", "order"),
    [
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, [0, 2, 1, 3]),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, [0, 1, 2, 3]),
        ({}, [0, 1, 2, 3]),
    ],
)
def test_hyperthreads_of_one_core_come_last(monkeypatch, siblings, order):
    def read_text(path):
        number = int(re.search(r"cpu(\d+)/topology", path.as_posix())[1])
        if number not in siblings:
            raise FileNotFoundError
        return siblings[number] + "\n"

    monkeypatch.setattr(clock.Path, "read_text", read_text)
    assert sorted(range(4), key=lambda n: (clock._second_of_core(n), n)) == order


@pytest.mark.skipif(sys.platform != "linux", reason="schedstat is Linux's")
def test_waiting_for_another_process_is_seen():
    usual = os.sched_getaffinity(0)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {min(usual)})
        os.sched_setaffinity(0, {min(usual)})
        before, end = clock.waiting_seconds(), time.monotonic() + 0.5
        while time.monotonic() < end:
            pass
        assert clock.waiting_seconds() - before > 0.05
    finally:
        os.sched_setaffinity(0, usual)
        busy.kill()
        busy.wait()


def test_pinning_survives_a_system_that_forbids_it(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    with clock.pinned_threads() as pinned:
        assert not pinned


def test_garbage_is_not_collected_in_the_middle():
    assert gc.isenabled()
    with clock.quiet_interpreter():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(sys.platform != "linux", reason="needs getrusage and glibc")
def test_fresh_pages_are_seen():
    found = clock.page_faults(lambda: torch.ones(16 << 20))
    assert found.count > 16  # 64 MiB, of which a page may be as much as 2
    assert clock.page_faults(lambda: 1 + 1).count < 16


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


def test_peak_memory_is_not_known_elsewhere(monkeypatch):
    """Windows has no C library to ask by the name None: that is a TypeError there."""
    monkeypatch.setattr(clock.sys, "platform", "win32")
    assert clock.peak_bytes(lambda: 1 / 0, "cpu") is None
    assert not clock.keep_memory()
