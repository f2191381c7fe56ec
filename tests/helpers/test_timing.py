"""Clocks, blocks, pinned threads and what the system tells of memory."""

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time

import pytest
import torch

from helpers import timing
from helpers.timing import Bandwidth, Plan, block, copy_bandwidth, plans_for
from tests.refresh import python

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


class FakeClock:
    """Time passes when a function says so; a sample may be disturbed, or waited in.

    *extra* gives seconds to add to a sample by its number, and *waits* seconds of it
    that a thread had to wait.  Each call takes *per_call* seconds.
    """

    # Slots, for what has attributes is put back between the calls of a comparison.
    __slots__ = ("extra", "per_call", "samples", "time", "waited", "waits")
    sample_s = timing.Clock.sample_s

    def __init__(self, extra=lambda n: 0.0, waits=lambda n: 0.0, per_call=0.0):
        self.time = self.waited = 0.0
        self.samples, self.extra, self.waits = 0, extra, waits
        self.per_call = per_call

    def now(self):
        return self.time

    def spend(self, seconds):
        self.time += seconds

    @contextlib.contextmanager
    def waiting(self):
        yield lambda: self.waited

    def sample(self, call, calls):
        start = self.time
        for _ in range(calls):
            call()
        wait = self.waits(self.samples)
        self.waited += wait
        self.time += self.extra(self.samples) + wait + calls * self.per_call
        self.samples += 1
        return self.time - start


# ------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize(
    ("seconds", "plans"),
    [
        ([1e-6], [Plan(100, 80)]),
        ([1e-3], [Plan(1, 8)]),
        ([10e-3], [Plan(1, 3)]),
        ([1.0], [Plan(1, 2)]),  # one to warm the cache, one that counts
        # Samples of both sides are equally long, and no longer than a block.
        ([1e-5, 1e-3], [Plan(100, 8), Plan(1, 8)]),
        ([1.0, 1e-3], [Plan(1, 2), Plan(8, 2)]),
    ],
)
def test_a_block_lasts_about_8_ms_of_samples_of_100_us(seconds, plans):
    assert plans_for(seconds) == plans


def test_a_block_is_the_lower_quartile_of_its_last_three_fifths():
    tenths = [0, 1, 2, 3, 50, 40, 30, 20, 10, 60]
    clock = FakeClock(extra=lambda n: tenths[n] / 10_000)
    assert block(clock, lambda: None, Plan(4, 10)).seconds == pytest.approx(5e-4)


def test_samples_in_which_we_waited_do_not_count():
    """Three in four wait for 2 ms; those that are left say what a call takes."""
    clock = FakeClock(waits=lambda n: n % 4 and 0.002, per_call=2e-4)
    found = block(clock, lambda: None, Plan(5, 20))
    assert found.seconds == pytest.approx(2e-4) and found.waited == 0
    # Two of the last nine are too few: of those that are left, one may be luck.
    clock = FakeClock(
        waits=lambda n: 0.002 if n not in (9, 14) else 3e-5, per_call=1e-3
    )
    found = block(clock, lambda: None, Plan(1, 15))
    assert found.seconds == pytest.approx(1.03e-3)
    assert found.waited == pytest.approx(3e-5)


def test_of_two_samples_the_second_counts():
    clock = FakeClock(extra=lambda n: 9.0 - n)
    assert block(clock, lambda: None, Plan(1, 2)).seconds == pytest.approx(8.0)


def test_where_all_samples_waited_the_truth_is_bounded():
    """The long one waited most, and least for what it took."""
    clock = FakeClock(
        waits=lambda n: 0.004 if n == 4 else 0.001,
        extra=lambda n: 0.1 if n == 4 else 0.0,
        per_call=1e-2,
    )
    found = block(clock, lambda: None, Plan(1, 6))
    assert found.seconds == pytest.approx(0.114)
    assert found.waited == pytest.approx(0.004)
    # Two threads may wait longer than the wall clock; something is always left.
    found = block(FakeClock(waits=lambda n: 9.0), lambda: None, Plan(1, 3))
    assert 0 < found.waited < found.seconds


def test_a_block_ends_early_when_calls_suddenly_take_far_longer():
    clock = FakeClock(per_call=1.0)
    block(clock, lambda: None, Plan(1, 80))
    assert clock.samples == 3


@linux
def test_waiting_for_another_process_is_seen():
    usual = os.sched_getaffinity(0)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {min(usual)})
        os.sched_setaffinity(0, {min(usual)})
        with timing.Clock().waiting() as waited:
            before, end = waited(), time.monotonic() + 0.5
            while time.monotonic() < end:
                pass
            assert waited() - before > 0.05
    finally:
        os.sched_setaffinity(0, usual)
        busy.kill()
        busy.wait()


# ------------------------------------------------------------------------------- clocks


def test_wall_clock_counts_every_call():
    calls = []
    assert timing.Clock().sample(lambda: calls.append(time.sleep(1e-3)), 7) > 7e-3
    assert len(calls) == 7
    assert type(timing.clock_for("cpu")) is timing.Clock


def test_cuda_time_is_between_events_round_all_the_calls(monkeypatch):
    done = []

    class Event:
        def __init__(self, enable_timing):
            self.name = ("start", "stop")[len(done)]
            done.append(f"make {self.name}")

        def record(self):
            done.append(f"record {self.name}")

        def synchronize(self):
            done.append(f"wait for {self.name}")

        def elapsed_time(self, other):
            return 4.0  # milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    seconds = timing.clock_for("cuda").sample(lambda: done.append("call"), 2)
    assert seconds == pytest.approx(4e-3)
    assert done[2:] == ["record start", "call", "call", "record stop", "wait for stop"]


# ------------------------------------------------------------------------------ threads


def affinities():
    cores = {}
    for tid in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):
            cores[tid] = os.sched_getaffinity(tid)
    return cores


@pytest.fixture
def several_threads():
    if sys.platform != "linux":
        pytest.skip("only Linux pins threads")
    if not 1 < torch.get_num_threads() <= len(os.sched_getaffinity(0)):
        pytest.skip("needs several threads, and a core for each")


@pytest.mark.usefixtures("several_threads")
def test_threads_are_pinned_and_put_back():
    before = affinities()
    for _ in range(40):  # on a busy machine the workers may not be recognised at once
        with timing.pinned_threads() as pinned:
            places = [cores for cores in affinities().values() if len(cores) == 1]
        assert before.items() <= affinities().items()
        if pinned:
            break
    assert len(places) == len(set(map(tuple, places))) == torch.get_num_threads()


@pytest.mark.usefixtures("several_threads")
def test_a_thread_that_starts_meanwhile_is_not_left_on_one_core():
    usual, end = os.sched_getaffinity(0), threading.Event()
    young = threading.Thread(target=end.wait)
    with contextlib.suppress(KeyboardInterrupt), timing.pinned_threads():
        young.start()
        raise KeyboardInterrupt
    try:
        assert os.sched_getaffinity(young.native_id) == os.sched_getaffinity(0) == usual
    finally:
        end.set()
        young.join()


def test_pinning_survives_a_system_that_forbids_it(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    with timing.pinned_threads() as pinned:
        assert not pinned


def test_where_linux_tells_nothing_no_thread_waits_and_none_is_pinned(monkeypatch):
    monkeypatch.setattr(timing, "_TASKS", "/no such folder")
    with timing.Clock().waiting() as waited, timing.pinned_threads() as pinned:
        assert waited() == 0 and not pinned


def test_garbage_is_not_collected_in_the_middle():
    for switch, collects in ((gc.disable, False), (gc.enable, True)):
        switch()
        with contextlib.suppress(KeyboardInterrupt), timing.quiet_interpreter():
            assert not gc.isenabled()
            raise KeyboardInterrupt
        assert gc.isenabled() is collects


# ------------------------------------------------------------------------------- memory


@linux
def test_fresh_pages_are_seen_until_the_allocator_keeps_them():
    # In a process of its own: an allocator that was once told keeps its memory.
    program = """
import torch
from helpers import timing

def ones():
    return torch.ones(16 << 20)

before = timing.page_faults(ones).count
timing.keep_memory()
kept = timing.page_faults(ones, calls=32).count  # the first calls still find no room
print(before, kept, timing.page_faults(lambda: 1 + 1).count)
"""
    before, kept, idle = map(int, python(program).stdout.split())
    assert before > 16  # 64 MiB, of which a page may be as much as 2
    assert kept < before / 4
    assert idle < 16


def test_pages_dominate_when_many_cost_much():
    costs = [(16, 0.31), (15, 0.9), (1000, 0.3)]
    assert [timing.Faults(*cost).dominate for cost in costs] == [True, False, False]


@linux
@pytest.mark.parametrize(("arrays", "numbers"), [(2, 16 << 20), (8, 1 << 18)])
def test_peak_memory_counts_what_a_call_holds_at_once(arrays, numbers):
    def several():
        return [torch.ones(numbers) for _ in range(arrays)]

    several()  # what the allocator keeps from here must not hide the next
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not reset its high-water mark")
    found = timing.peak_bytes(several, "cpu")
    assert found == pytest.approx(4 * arrays * numbers, rel=0.25)


def test_peak_memory_is_not_known_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert timing.peak_bytes(lambda: 1 / 0, "cpu") is None
    assert not timing.keep_memory()


def test_bandwidth(monkeypatch):
    found = copy_bandwidth(working_set=16 << 20, budget=0.1)
    assert 1e8 < found.bytes_per_s < 1e13 and found.working_set == 16 << 20
    for budget, samples in (
        (0.0, 3 + 2 * 5),
        (11.0, 3 + 2 * 6),
    ):  # five blocks at least
        clock = FakeClock(per_call=1.0)
        monkeypatch.setattr(timing, "clock_for", {"cpu": clock}.get)
        found = copy_bandwidth(working_set=1 << 10, budget=budget)
        assert (found.bytes_per_s, clock.samples) == (1 << 10, samples)
    known = Bandwidth(12.345e9, 512 << 20, "cpu")
    assert str(known) == repr(known) == "copying 512 MiB in all: ⟨12.3 GB/s⟩"
