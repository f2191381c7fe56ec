"""Clocks, blocks, pinned threads and what the system tells of memory."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest
import torch

from helpers import timing
from helpers.timing import Plan, block, plans_for
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
        ([11e-3], [Plan(1, 2)]),  # one to warm the cache, one that counts
        # Samples of both sides are equally long, and no longer than a block.
        ([1e-5, 1e-3], [Plan(100, 8), Plan(1, 8)]),
        ([1.0, 1e-3], [Plan(1, 2), Plan(8, 2)]),
        ([53e-6, 76e-6], [Plan(2, 62)] * 2),  # a busy moment: they may be equal
    ],
)
def test_a_block_lasts_about_8_ms_of_samples_of_100_us(seconds, plans):
    assert plans_for(seconds) == plans


def test_a_block_is_the_lower_quartile_of_its_last_three_fifths():
    tenths = [0, 1, 2, 3, 50, 40, 30, 20, 10, 60]
    clock = FakeClock(extra=lambda n: tenths[n] / 10_000)
    assert block(clock, lambda: None, Plan(4, 10)).seconds == pytest.approx(5e-4)


@pytest.mark.parametrize(("samples", "seconds"), [(20, 1.01e-3), (15, 6e-3)])
def test_a_quarter_of_undisturbed_samples_is_enough(samples, seconds):
    """Of the last 12, three: the lowest.  Of the last nine, two: what waited least."""
    waits = {9: 1e-5, 14: 0.0, 16: 1e-5}
    clock = FakeClock(
        waits=lambda n: waits.get(n, 2e-3),
        extra=lambda n: 5e-3 if n == 14 else 0.0,
        per_call=1e-3,
    )
    found = block(clock, lambda: None, Plan(1, samples))
    assert found.seconds == pytest.approx(seconds) and found.waited == 0


def test_where_all_samples_waited_the_truth_is_bounded():
    """The long one waited most, and least for what it took."""
    clock = FakeClock(
        waits=lambda n: 0.004 if n == 4 else 0.001,
        extra=lambda n: 0.1 if n == 4 else 0.0,
        per_call=2.5e-3,
    )
    found = block(clock, lambda: None, Plan(4, 6))
    assert found.seconds == pytest.approx(0.114 / 4)
    assert found.waited == pytest.approx(0.004 / 4)
    # Two threads may wait longer than the wall clock; something is always left.
    found = block(FakeClock(waits=lambda n: 9.0), lambda: None, Plan(1, 3))
    assert found.waited == pytest.approx(0.99 * found.seconds)


# ------------------------------------------------------------------------------- clocks


@linux
def test_waiting_for_another_process_is_seen():
    """Both have one core, so that this one waits sooner or later."""
    usual = os.sched_getaffinity(0)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {min(usual)})
        os.sched_setaffinity(0, {min(usual)})
        with timing.Clock().waiting() as waited:
            before, end = waited(), time.monotonic() + 60
            while waited() - before < 0.05:
                assert time.monotonic() < end
    finally:
        os.sched_setaffinity(0, usual)
        busy.kill()
        busy.wait()


def test_cuda_time_is_between_events_round_all_the_calls(monkeypatch):
    done, call = mock.Mock(), mock.call
    done.start.elapsed_time.return_value = 4.0  # milliseconds
    event = mock.Mock(side_effect=[done.start, done.stop])
    monkeypatch.setattr(torch.cuda, "Event", event)
    seconds = timing.clock_for("cuda").sample(done.run, 2)
    assert seconds == pytest.approx(4e-3)
    event.assert_called_with(enable_timing=True)
    timed = [call.start.record(), call.run(), call.run(), call.stop.record()]
    ended = [call.stop.synchronize(), call.start.elapsed_time(done.stop)]
    assert done.mock_calls == timed + ended


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


# ------------------------------------------------------------------------------ threads


@linux
def test_real_threads_are_pinned_and_put_back(monkeypatch):
    end = threading.Event()
    young = [threading.Thread(target=end.wait) for _ in range(2)]
    usual = os.sched_getaffinity(0)
    if len(usual) < 2:
        pytest.skip("needs two cores")
    try:
        young[0].start()
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
        monkeypatch.setattr(timing, "_workers", lambda n: [young[0].native_id])
        with timing.pinned_threads() as pinned:
            young[1].start()
            places = [os.sched_getaffinity(t) for t in (0, young[0].native_id)]
        assert pinned and set.union(*places) <= usual
        assert [len(place) for place in places] == [1, 1] and places[0] != places[1]
        for thread in (threading.get_native_id(), *(t.native_id for t in young)):
            assert os.sched_getaffinity(thread) == usual
    finally:
        end.set()
        for thread in young:
            thread.join()
