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

from helpers import timing
from helpers.timing import Plan, block


class FakeClock:
    """Time passes only when a function says so; each sample may be disturbed."""

    sample_s = timing.WallClock.sample_s

    def __init__(self, extra=lambda sample: 0.0, start=0.0):
        self.time, self.samples, self.extra = start, 0, extra

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
        if seconds < timing.WallClock.sample_s:
            assert plan.calls * seconds == pytest.approx(
                timing.WallClock.sample_s, rel=0.01
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
    assert timing.WallClock().sample(lambda: seen.append(1), 7) > 0
    assert len(seen) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_threads_are_pinned_and_put_back():
    if not 1 < torch.get_num_threads() <= len(os.sched_getaffinity(0)):
        pytest.skip("needs several threads, and a core for each")
    before = affinities()
    for _ in range(40):  # on a busy machine the workers may not be recognised at once
        with timing.pinned_threads() as pinned:
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
    monkeypatch.setattr(timing, "_places", lambda: {own: min(usual)})
    young = threading.Thread(target=end.wait)
    with contextlib.suppress(KeyboardInterrupt), timing.pinned_threads() as pinned:
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

    monkeypatch.setattr(timing.Path, "read_text", read_text)
    assert sorted(range(4), key=lambda n: (timing._second_of_core(n), n)) == order


@pytest.mark.skipif(sys.platform != "linux", reason="schedstat is Linux's")
def test_waiting_for_another_process_is_seen():
    usual = os.sched_getaffinity(0)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(busy.pid, {min(usual)})
        os.sched_setaffinity(0, {min(usual)})
        before, end = timing.waiting_seconds(), time.monotonic() + 0.5
        while time.monotonic() < end:
            pass
        assert timing.waiting_seconds() - before > 0.05
    finally:
        os.sched_setaffinity(0, usual)
        busy.kill()
        busy.wait()


def test_pinning_survives_a_system_that_forbids_it(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    with timing.pinned_threads() as pinned:
        assert not pinned


def test_garbage_is_not_collected_in_the_middle():
    assert gc.isenabled()
    with timing.quiet_interpreter():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(sys.platform != "linux", reason="needs getrusage and glibc")
def test_fresh_pages_are_seen():
    found = timing.page_faults(lambda: torch.ones(16 << 20))
    assert found.count > 16  # 64 MiB, of which a page may be as much as 2
    assert timing.page_faults(lambda: 1 + 1).count < 16


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_peak_memory_counts_what_a_call_holds_at_once():
    def two_arrays():
        x = torch.ones(16 << 20)
        return x, x + 1

    two_arrays()  # what the allocator keeps from here must not hide the next
    found = timing.peak_bytes(two_arrays, "cpu")
    assert found is None or found == pytest.approx(128 << 20, rel=0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_peak_memory_of_small_arrays_is_not_hidden_by_the_allocator():
    def several():
        return [torch.ones(1 << 18) for _ in range(8)]

    several()
    found = timing.peak_bytes(several, "cpu")
    assert found is None or found == pytest.approx(8 << 20, rel=0.25)


def test_peak_memory_is_not_known_elsewhere(monkeypatch):
    """Windows has no C library to ask by the name None: that is a TypeError there."""
    monkeypatch.setattr(timing.sys, "platform", "win32")
    assert timing.peak_bytes(lambda: 1 / 0, "cpu") is None
    assert not timing.keep_memory()


# --------------------------------------------- exact answers, from made-up systems


def test_the_wall_clock_gives_seconds_of_all_calls(monkeypatch):
    ticks = iter([1_000_000_000, 3_500_000_000])
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: next(ticks))
    assert timing.WallClock().sample(lambda: None, 5) == pytest.approx(2.5)


def test_cuda_time_is_between_events_round_all_the_calls(monkeypatch):
    said = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing is True
            self.name = ("start", "stop")[len(said)]
            said.append(f"make {self.name}")

        def record(self):
            said.append(f"record {self.name}")

        def synchronize(self):
            said.append(f"wait for {self.name}")

        def elapsed_time(self, other):
            said.append(f"{self.name} to {other.name}")
            return 4.0  # milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    found = timing.clock_for("cuda")
    assert found.sample(lambda: said.append("call"), 2) == pytest.approx(4e-3)
    assert said == [
        *("make start", "make stop", "record start", "call", "call"),
        *("record stop", "wait for stop", "start to stop"),
    ]
    assert isinstance(found, timing.CudaClock) and found.sample_s == 500e-6


@pytest.mark.parametrize(("there", "name"), [(True, "cuda"), (False, "cpu")])
def test_the_device_is_the_gpu_where_there_is_one(monkeypatch, there, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert timing.device() == name


def test_the_clock_of_a_cpu():
    assert type(timing.clock_for("cpu")) is timing.WallClock
    assert timing.WallClock.sample_s == 100e-6


@pytest.mark.parametrize(
    ("seconds", "sample_s", "plan"),
    [
        (1e-6, 100e-6, Plan(100, 80)),
        (100e-6, 100e-6, Plan(1, 80)),
        (1e-3, 100e-6, Plan(1, 8)),
        (4e-3, 100e-6, Plan(1, 3)),
        (10e-3, 100e-6, Plan(1, 3)),  # 1.25 blocks
        (10.1e-3, 100e-6, Plan(1, 2)),
        (100e-6, 500e-6, Plan(5, 80)),
        (49e-3, 500e-6, Plan(1, 3)),
    ],
)
def test_plans(seconds, sample_s, plan):
    assert Plan.for_call(seconds, sample_s) == plan


def test_a_block_is_the_lower_quartile_of_its_last_three_fifths(monkeypatch):
    waits = iter([1.0, 10.0])
    monkeypatch.setattr(timing, "waiting_seconds", lambda: next(waits))
    fake = FakeClock([0, 1, 2, 3, 50, 40, 30, 20, 10, 60].__getitem__, start=100.0)
    found = block(fake, lambda: None, Plan(4, 10))
    assert found.seconds == 20 / 4  # of 10, 20, 30, 40, 50, 60
    assert found.waited == 9.0 / (1 + 2 + 3 + 50 + 40 + 30 + 20 + 10 + 60)


def test_a_block_that_takes_no_time_is_no_division_by_zero():
    assert block(FakeClock(), lambda: None, Plan(1, 3)).seconds == 1e-12


def tasks(monkeypatch, folder, **texts):
    """Make the system count as *texts* say: thread1="ran waited times" and so on."""
    for name, text in texts.items():
        thread = folder / name.removeprefix("thread")
        thread.mkdir(exist_ok=True)
        (thread / "schedstat").write_text(text)
    monkeypatch.setattr(timing, "_TASKS", folder)


def test_waiting_is_summed_over_the_threads(monkeypatch, tmp_path):
    tasks(
        monkeypatch,
        tmp_path,
        thread1="4000000000 500000000 7\n",
        thread2="1000000000 250000000 7\n",
        thread3="it ended",
    )
    (tmp_path / "4" / "schedstat").mkdir(parents=True)  # cannot be read
    assert timing._schedstat() == {1: (4.0, 0.5), 2: (1.0, 0.25)}
    assert timing.waiting_seconds() == 0.75
    monkeypatch.setattr(timing, "_TASKS", tmp_path / "none")
    assert timing.waiting_seconds() == 0


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with timing.quiet_interpreter():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
    with contextlib.suppress(KeyboardInterrupt), timing.quiet_interpreter():
        raise KeyboardInterrupt
    assert gc.isenabled()


def test_garbage_is_collected_before(monkeypatch):
    done = []
    monkeypatch.setattr(timing.gc, "collect", lambda oldest: done.append(oldest))
    monkeypatch.setattr(timing.gc, "disable", lambda: done.append("disable"))
    with timing.quiet_interpreter():
        assert done == [1, "disable"]  # 2 would walk through all of torch


def machine(monkeypatch, threads, cores, workers):
    """Make the machine have *threads*, *cores* and the threads of *workers*."""
    asked = []

    def found(wanted):
        asked.append(wanted)
        return workers[:wanted]

    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores, raising=False)
    monkeypatch.setattr(timing, "_second_of_core", lambda n: n in (1, 3))
    monkeypatch.setattr(timing, "_workers", found)
    return asked


def test_this_thread_and_its_workers_get_a_core_each(monkeypatch):
    own = threading.get_native_id()
    asked = machine(monkeypatch, 3, {0, 1, 2, 3}, [71, 72, 73])
    assert timing._places() == {own: 0, 71: 2, 72: 1}
    assert asked == [2]


@pytest.mark.parametrize(
    ("threads", "cores", "workers"),
    [
        (1, {0, 1}, [71]),  # nothing to spread
        (2, {0}, [71]),  # fewer cores than threads
        (3, {0, 1, 2, 3}, [71]),  # not all of the threads were recognised
    ],
)
def test_nothing_is_pinned_where_it_would_not_help(
    monkeypatch, threads, cores, workers
):
    machine(monkeypatch, threads, cores, workers)
    assert timing._places() == {}
    with timing.pinned_threads() as pinned:
        assert pinned is False


def test_two_threads_on_two_cores_are_pinned(monkeypatch):
    machine(monkeypatch, 2, {5, 4}, [71])
    assert timing._places() == {threading.get_native_id(): 4, 71: 5}


def test_the_workers_are_those_that_ran_meanwhile(monkeypatch):
    own = threading.get_native_id()
    counts = [
        {own: (1.0, 0.0), 71: (5.0, 0.0), 72: (5.0, 0.0), 73: (9.0, 0.0)},
        {
            own: (9.0, 0.0),
            71: (5.02, 0.0),
            72: (5.04, 0.0),
            73: (9.005, 0.0),  # too little to be one
            74: (0.03, 0.0),  # has just begun
        },
    ]
    for wanted, found in ((1, [72]), (2, [72, 74]), (9, [72, 74, 71])):
        times = iter(counts)
        monkeypatch.setattr(timing, "_schedstat", lambda: next(times))  # noqa: B023
        assert timing._workers(wanted) == found


def test_pages_and_the_system_s_share_are_per_call(monkeypatch):
    resource = pytest.importorskip("resource")

    class Usage:
        def __init__(self, system, user, faults):
            self.ru_stime, self.ru_utime, self.ru_minflt = system, user, faults

    used = iter([Usage(1.0, 2.0, 100), Usage(1.75, 2.25, 175)])
    monkeypatch.setattr(resource, "getrusage", lambda _: next(used))
    called = []
    found = timing.page_faults(lambda: called.append(1))
    assert found == timing.Faults(25, 0.75) and len(called) == 3
    still = iter([Usage(1.0, 2.0, 100), Usage(1.0, 2.0, 100)])
    monkeypatch.setattr(resource, "getrusage", lambda _: next(still))
    assert timing.page_faults(lambda: None, 2) == timing.Faults(0, 0.0)


def test_no_page_faults_are_known_without_the_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert timing.page_faults(lambda: 1 / 0) == timing.Faults(0, 0.0)


@pytest.mark.parametrize(
    ("count", "share", "said"),
    [(16, 0.31, True), (15, 0.9, False), (1000, 0.3, False)],
)
def test_pages_dominate_when_many_cost_much(count, share, said):
    assert timing.Faults(count, share).dominate is said


def test_peak_memory_on_cuda_is_the_allocator_s(monkeypatch):
    said = []
    for name, value in {
        "synchronize": None,
        "reset_peak_memory_stats": None,
        "memory_allocated": 1000,
        "max_memory_allocated": 1800,
    }.items():
        monkeypatch.setattr(
            torch.cuda, name, lambda name=name, value=value: said.append(name) or value
        )
    assert timing.peak_bytes(lambda: said.append("call"), "cuda") == 800
    assert said == [
        *("synchronize", "reset_peak_memory_stats", "memory_allocated"),
        *("call", "synchronize", "max_memory_allocated"),
    ]


def linux(monkeypatch, rss, high):
    """Make this a Linux whose kernel says these KiB; return what is asked of it."""
    status = f"Name:\tx\nVmHWM:\t  {high} kB\nVmRSS:\t {rss} kB\nThreads:\t1\n"
    said = []

    class Library:
        def malloc_trim(self, pad):
            said.append(("trim", pad))

    def write(path, text):
        said.append((path.as_posix(), text))

    monkeypatch.setattr(timing.sys, "platform", "linux")
    monkeypatch.setattr(timing.ctypes, "CDLL", lambda _: Library())
    monkeypatch.setattr(timing.Path, "read_text", lambda _: status)
    monkeypatch.setattr(timing.Path, "write_text", write)
    return said


def test_peak_memory_on_linux_is_the_kernel_s(monkeypatch):
    said = linux(monkeypatch, rss=100, high=164)
    found = timing.peak_bytes(lambda: said.append("call"), "cpu")
    assert found == 64 * 1024
    assert said == [("trim", 0), ("/proc/self/clear_refs", "5"), "call"]
    linux(monkeypatch, rss=100, high=90)
    assert timing.peak_bytes(lambda: None, "cpu") == 0


def test_peak_memory_is_not_known_where_the_kernel_will_not_say(monkeypatch):
    linux(monkeypatch, 1, 1)

    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(timing.Path, "write_text", forbidden)
    assert timing.peak_bytes(lambda: 1 / 0, "cpu") is None
    linux(monkeypatch, 1, 1)
    monkeypatch.setattr(timing.Path, "read_text", lambda _: "Name: x\n")
    assert timing.peak_bytes(lambda: 1 / 0, "cpu") is None


@pytest.mark.parametrize(
    ("answers", "asked"), [((1, 1), True), ((0, 1), False), ((1, 0), False)]
)
def test_both_settings_of_the_allocator_are_needed(monkeypatch, answers, asked):
    """Numbers from malloc.h: M_MMAP_MAX is -4, M_TRIM_THRESHOLD is -1."""
    given, said = iter(answers), []

    class Library:
        def mallopt(self, setting, value):
            said.append((setting, value))
            return next(given)

    monkeypatch.setattr(timing.sys, "platform", "linux")
    monkeypatch.setattr(timing.ctypes, "CDLL", lambda _: Library())
    assert timing.keep_memory() is asked
    assert said == [(-4, 0), (-1, 2**31 - 1)][: len(said)]
    monkeypatch.setattr(timing.ctypes, "CDLL", lambda _: object())
    assert timing.keep_memory() is False  # musl
