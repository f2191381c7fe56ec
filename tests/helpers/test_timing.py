"""Clocks, blocks, pinned threads and what the system tells of memory."""

import contextlib
import copy
import ctypes
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from types import SimpleNamespace

import psutil
import pytest
import torch

from helpers import timing
from helpers.timing import Bandwidth, Faults, Plan, block, copy_bandwidth, plans_for
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


def test_of_two_samples_the_second_counts():
    clock = FakeClock(extra=lambda n: 9.0 - n)
    assert block(clock, lambda: None, Plan(1, 2)).seconds == pytest.approx(8.0)


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


@pytest.mark.parametrize(("per_call", "samples"), [(1.0, 3), (0.027, 3), (0.026, 4)])
def test_a_block_ends_early_when_calls_suddenly_take_far_longer(per_call, samples):
    """After ten times the 8 ms that were planned, and three samples."""
    clock = FakeClock(per_call=per_call)
    block(clock, lambda: None, Plan(1, 80))
    assert clock.samples == samples


# ------------------------------------------------------------------------------- clocks


class Process:
    """A folder like /proc/self, with what a test says of threads and memory."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "task").mkdir(parents=True)

    def thread(self, number, ran=0.0, waited=0.0):
        """Say how many seconds a thread ran, and waited for a core."""
        place = self.folder / "task" / str(number)
        place.mkdir(exist_ok=True)
        times = f"{round(ran * 1e9)} {round(waited * 1e9)} 5\n"
        (place / "schedstat").write_text(times)

    def end(self, number):
        shutil.rmtree(self.folder / "task" / str(number), ignore_errors=True)


@pytest.fixture
def process(tmp_path, monkeypatch):
    if not hasattr(os, "pread"):
        pytest.skip("this system cannot read from the middle of a file")
    monkeypatch.setattr(timing, "_PROCESS", str(tmp_path / "self"))
    return Process(tmp_path / "self")


def test_waits_of_all_threads_are_summed(process):
    process.thread(1, ran=5, waited=2)
    process.thread(20, waited=0.5)
    (process.folder / "task" / "3").mkdir()  # it ends between two looks
    with timing.Clock().waiting() as waited:
        assert waited() == pytest.approx(2.5)
        process.thread(20, ran=1, waited=0.75)
        process.thread(4, waited=9)  # too late: not of those that there were
        assert waited() == pytest.approx(2.75)


def test_a_thread_that_ends_stops_counting_and_its_file_is_closed(process, monkeypatch):
    opened, ended, really_open, really_read = {}, [], os.open, os.pread

    def open_(path, flags):
        thread = int(path.split("/")[-2])
        opened[thread] = really_open(path, flags)
        return opened[thread]

    def pread(file, *rest):
        if file in ended:
            raise ProcessLookupError
        return really_read(file, *rest)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "pread", pread)
    process.thread(1, waited=2)
    process.thread(2, waited=3)
    with timing.waiting_threads() as waited:
        ended.append(opened[1])
        assert waited() == pytest.approx(3)
    for file in opened.values():
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(file)


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


def test_the_time_of_a_sample_is_that_of_all_its_calls(monkeypatch):
    now, calls = [5_000_000_000], []
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])

    def call():
        calls.append(None)
        now[0] += 3_000

    assert timing.Clock().sample(call, 7) == pytest.approx(21e-6)
    assert len(calls) == 7
    assert type(timing.clock_for("cpu")) is timing.Clock


def test_it_is_the_clock_of_this_machine():
    calls = []
    assert timing.Clock().sample(lambda: calls.append(time.sleep(1e-3)), 7) > 7e-3
    assert len(calls) == 7


def test_cuda_time_is_between_events_round_all_the_calls(monkeypatch):
    done = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.name = ("start", "stop")[len(done)]
            done.append(f"make {self.name}")

        def record(self):
            done.append(f"record {self.name}")

        def synchronize(self):
            done.append(f"wait for {self.name}")

        def elapsed_time(self, other):
            assert (self.name, other.name) == ("start", "stop")
            return 4.0  # milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    seconds = timing.clock_for("cuda").sample(lambda: done.append("call"), 2)
    assert seconds == pytest.approx(4e-3)
    assert done[2:] == ["record start", "call", "call", "record stop", "wait for stop"]


def test_the_course_runs_on_the_gpu_where_there_is_one(monkeypatch):
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert timing.device() == device


# ------------------------------------------------------------------------------ threads


class Kernel:
    """Which core each thread may run on, of a process whose first thread is this one.

    *cores* gives to each core the siblings that share it, as Linux writes them.
    """

    def __init__(self, cores, threads):
        self.allowed = {thread: set(cores) for thread in threads}
        self.me, self.changes, self.forbidden = threads[0], [], set()

    def affinity(self, thread):
        return set(self.allowed[thread or self.me])

    def move(self, thread, cores):
        if thread in self.forbidden:
            raise PermissionError
        self.changes.append((thread, cores))
        self.allowed[thread] = set(cores)


@pytest.fixture
def kernel(process, tmp_path, monkeypatch):
    """Three of four threads work in a loop, on two cores of two hyperthreads each."""
    siblings = {0: "0-1", 1: "0-1", 2: "2,3", 3: "2,3"}
    kernel = Kernel(siblings, [71, 72, 73, 74])
    for core, text in siblings.items():
        place = tmp_path / f"cpu{core}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(f"{text}\n")
    for thread in kernel.allowed:
        process.thread(thread)
    monkeypatch.setattr(timing, "_CORES", str(tmp_path))
    monkeypatch.setattr(timing, "_workers", lambda wanted: [74, 72, 73][:wanted])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(threading, "get_native_id", lambda: kernel.me)
    for name in ("sched_getaffinity", "sched_setaffinity"):
        does = kernel.affinity if "get" in name else kernel.move
        monkeypatch.setattr(os, name, does, raising=False)
    return kernel


def test_threads_have_cores_of_their_own_before_two_share_one(kernel, process):
    usual = {0, 1, 2, 3}
    with timing.pinned_threads() as pinned:
        assert pinned
        assert kernel.allowed == {71: {0}, 74: {2}, 72: {1}, 73: usual}
        process.thread(75)  # one that starts meanwhile has the place of its parent
        kernel.allowed[75] = {0}
        process.end(72)
        del kernel.allowed[72]
    assert kernel.allowed == dict.fromkeys((71, 73, 74, 75), usual)


def test_each_thread_is_put_back_where_it_was(kernel):
    kernel.allowed[73], kernel.allowed[74] = {3}, {1, 2}
    before = copy.deepcopy(kernel.allowed)
    with contextlib.suppress(KeyboardInterrupt), timing.pinned_threads():
        assert kernel.allowed[74] == {2}
        raise KeyboardInterrupt
    assert kernel.allowed == before


def test_of_two_hyperthreads_the_lower_number_is_the_first(kernel, tmp_path):
    assert [timing._second_of_core(n) for n in range(4)] == [False, True, False, True]
    (tmp_path / "cpu3" / "topology" / "thread_siblings_list").write_text("none")
    assert not timing._second_of_core(3) and not timing._second_of_core(9)


def test_nothing_is_pinned_without_a_worker_and_a_core_for_each_thread(
    kernel, monkeypatch
):
    def is_pinned(threads, workers=3, cores=4):
        there = [74, 72, 73][:workers]
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        monkeypatch.setattr(timing, "_workers", lambda wanted: there[:wanted])
        kernel.allowed, kernel.changes = dict.fromkeys(kernel.allowed, range(cores)), []
        with timing.pinned_threads() as pinned:
            assert pinned is bool(kernel.changes)
        return pinned

    assert is_pinned(2) and is_pinned(4)
    assert not is_pinned(1)
    assert not is_pinned(4, workers=2) and is_pinned(4, workers=3)
    assert not is_pinned(4, cores=3) and is_pinned(3, cores=3)
    monkeypatch.delattr(os, "sched_setaffinity")  # as on macOS
    assert not is_pinned(2)


@pytest.mark.parametrize("thread", [71, 74])
def test_where_a_thread_may_not_be_moved_none_is_left_moved(kernel, thread):
    kernel.forbidden = {thread}
    before = copy.deepcopy(kernel.allowed)
    with timing.pinned_threads() as pinned:
        assert not pinned
    assert kernel.allowed == before


def test_where_linux_tells_nothing_no_thread_waits_and_none_is_pinned(monkeypatch):
    monkeypatch.setattr(timing, "_PROCESS", "/no such folder")
    with timing.Clock().waiting() as waited, timing.pinned_threads() as pinned:
        assert waited() == 0 and not pinned


@pytest.mark.parametrize(
    ("wanted", "found"), [(1, [3]), (2, [3, 2]), (3, [3, 2, 6]), (4, [3, 2, 6])]
)
def test_workers_are_the_threads_that_run_while_a_loop_does(
    wanted, found, process, monkeypatch
):
    """Thread 1 is this one, 4 ran long before, 5 ends and 6 starts meanwhile."""
    now, ran = 0.0, {1: 1.0, 2: 3.0, 3: 7.0, 4: 90.0, 5: 0.0}
    in_a_step = {1: 1 / 64, 2: 6e-3, 3: 9e-3, 4: 1e-3, 6: 5e-3}

    def add(x, y, out):
        nonlocal now
        assert x is out and x.numel() > 1 << 15  # below, one thread does it all
        now += 1 / 64
        for thread, seconds in in_a_step.items():
            ran[thread] = ran.get(thread, 0.0) + seconds
            process.thread(thread, ran=ran[thread], waited=50)
        process.end(5)

    for thread, seconds in ran.items():
        process.thread(thread, ran=seconds)
    process.thread(7)
    (process.folder / "task" / "7" / "schedstat").write_text("")  # it is just ending
    (process.folder / "task" / "8").mkdir()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(threading, "get_native_id", lambda: 1)
    monkeypatch.setattr(torch, "add", add)
    assert timing._workers(wanted) == found
    assert now == 4 / 64  # the first step that ends after 50 ms


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


class Cycle:
    """What only the collector finds to be garbage."""

    def __init__(self):
        self.itself = self


def test_garbage_is_collected_before_and_not_in_the_middle():
    for switch, collects in ((gc.disable, False), (gc.enable, True)):
        switch()
        garbage = weakref.ref(Cycle())
        with contextlib.suppress(KeyboardInterrupt), timing.quiet_interpreter():
            assert garbage() is None and not gc.isenabled()
            raise KeyboardInterrupt
        assert gc.isenabled() is collects


# ------------------------------------------------------------------------------- memory


class Allocator:
    """glibc's, as ctypes finds it in this process; *refused* are options of mallopt."""

    def __init__(self, refused=()):
        self.refused, self.asked = refused, []

    def __call__(self, name):
        assert name is None
        return self

    def mallopt(self, option, value):
        self.asked.append((option, value))
        return int(option not in self.refused)

    def malloc_trim(self, kept):
        self.asked.append(("trim", kept))


def test_the_allocator_is_told_to_map_nothing_and_to_keep_all(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux2")
    for refused, kept in (((), True), ([-4], False), ([-1], False)):
        allocator = Allocator(refused)
        monkeypatch.setattr(ctypes, "CDLL", allocator)
        assert timing.keep_memory() is kept
        trimmed_above = (-1, 2**31 - 1)
        assert allocator.asked == [(-4, 0), trimmed_above][: 1 if -4 in refused else 2]


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


@pytest.fixture
def usage(monkeypatch):
    """What the system says that this process used, and no thread or child alone."""
    usage = SimpleNamespace(ru_minflt=100, ru_stime=2.0, ru_utime=5.0)
    of = {"this process": usage}.__getitem__
    fake = SimpleNamespace(
        RUSAGE_SELF="this process", getrusage=lambda who: copy.copy(of(who))
    )
    monkeypatch.setattr(timing, "resource", fake)
    return usage


def test_page_faults_are_those_of_a_call(usage):
    calls = []

    def call():
        calls.append(None)
        usage.ru_minflt += 7 if len(calls) > 1 else 5
        usage.ru_stime += 0.25
        usage.ru_utime += 0.5

    assert timing.page_faults(call, calls=6) == Faults(7, pytest.approx(1 / 3))
    assert len(calls) == 6
    assert timing.page_faults(call) == Faults(7, pytest.approx(1 / 3))
    assert len(calls) == 9
    assert timing.page_faults(lambda: None) == Faults(0, 0.0)


def test_the_share_of_the_system_is_that_of_this_call(usage):
    def call():
        usage.ru_stime += 0.5
        usage.ru_utime += 0.5

    assert timing.page_faults(call) == Faults(0, 0.5)


def test_where_page_faults_are_not_told_nothing_is_called(monkeypatch):
    monkeypatch.setattr(timing, "resource", None)  # as on Windows
    assert timing.page_faults(lambda: 1 / 0) == Faults(0, 0.0)


def test_pages_dominate_when_many_cost_much():
    costs = [(16, 0.31), (15, 0.9), (1000, 0.3)]
    assert [Faults(*cost).dominate for cost in costs] == [True, False, False]


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


@pytest.fixture
def memory(process, monkeypatch):
    """Memory of a Linux process, in KiB, and its high-water mark since a "5"."""
    memory = SimpleNamespace(now=1000, peak=9000, allocator=Allocator())

    def rss():
        if (process.folder / "clear_refs").read_text() == "5":
            memory.peak = memory.now
        return SimpleNamespace(rss=1024 * memory.now)

    def call(takes):
        assert memory.allocator.asked == [("trim", 0)]
        memory.peak = max(memory.peak, memory.now + takes)
        status = f"VmPeak:\t99999 kB\nVmHWM:\t    {memory.peak} kB\nVmRSS:\t1 kB\n"
        (process.folder / "status").write_text(status)

    memory.call = call
    monkeypatch.setattr(sys, "platform", "linux2")
    monkeypatch.setattr(ctypes, "CDLL", memory.allocator)
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(memory_info=rss))
    return memory


def test_peak_memory_is_the_high_water_mark_above_what_was_there(memory, process):
    for takes, found in ((300, 300 * 1024), (0, 0), (-1, 0)):
        memory.allocator.asked.clear()
        assert timing.peak_bytes(lambda takes=takes: memory.call(takes), "cpu") == found


def test_peak_memory_is_not_known_where_linux_does_not_tell_it(memory, process):
    (process.folder / "status").write_text("Name: python")
    assert timing.peak_bytes(lambda: None, "cpu") is None
    (process.folder / "status").unlink()
    assert timing.peak_bytes(lambda: None, "cpu") is None


def test_peak_memory_on_cuda_is_the_allocators(monkeypatch):
    done, memory = [], {"now": 1000, "peak": 9000}

    def reset():
        done.append("reset")
        memory["peak"] = memory["now"]

    def call():
        done.append("call")
        memory["peak"] += 300

    for name, does in {
        "synchronize": lambda: done.append("wait"),
        "reset_peak_memory_stats": reset,
        "memory_allocated": lambda: memory["now"],
        "max_memory_allocated": lambda: memory["peak"],
    }.items():
        monkeypatch.setattr(torch.cuda, name, does)
    assert timing.peak_bytes(call, "cuda") == 300
    assert done == ["wait", "reset", "call", "wait"]


def test_peak_memory_is_not_known_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert timing.peak_bytes(lambda: 1 / 0, "cpu") is None
    assert not timing.keep_memory()


# ---------------------------------------------------------------------------- bandwidth


@pytest.fixture
def copying(monkeypatch):
    """A clock on which a call takes a second, and which looks at what is called."""

    class Looking(FakeClock):
        __slots__ = ("copied", "quiet")
        sample_s = 200e-6

        def sample(self, call, calls):
            seconds = super().sample(call, calls)
            source, target = *call.args, call.func.__self__
            assert bool((target == 1).all()) and source.data_ptr() != target.data_ptr()
            self.copied = source.nbytes + target.nbytes
            self.quiet = not gc.isenabled()
            return seconds

    clock = Looking(per_call=1.0)
    monkeypatch.setattr(timing, "clock_for", {"cpu": clock}.__getitem__)
    return clock


@pytest.mark.parametrize(("budget", "blocks"), [(0.0, 5), (10.0, 5), (11.0, 6)])
def test_bandwidth_counts_the_bytes_that_move(copying, budget, blocks):
    """Three calls come first; a block is two, and five blocks are timed at least."""
    found = copy_bandwidth(working_set=1 << 10, budget=budget)
    assert found == Bandwidth(1 << 10, 1 << 10, "cpu")
    assert copying.samples == 3 + 2 * blocks
    assert copying.copied == 1 << 10 and copying.quiet


@pytest.mark.parametrize(("per_call", "blocks"), [(2**-4, 8 * 2), (2**-10, 64 * 16)])
def test_bandwidth_is_measured_for_a_second_in_blocks_of_16_ms(
    copying, per_call, blocks
):
    copying.per_call = per_call
    found = copy_bandwidth(working_set=1 << 10)
    assert found.bytes_per_s == (1 << 10) / per_call
    assert copying.samples == 3 + blocks


def test_bandwidth_is_that_of_the_device_that_is_named(monkeypatch):
    clock = FakeClock(per_call=1.0)
    monkeypatch.setattr(timing, "clock_for", {"meta": clock}.__getitem__)
    assert copy_bandwidth(1 << 10, "meta", 0.0) == Bandwidth(1 << 10, 1 << 10, "meta")


def test_bandwidth_is_the_faster_quarter_of_what_was_measured(copying):
    """Of blocks that take 1, 2, ... seconds, and a first call that takes longer."""
    copying.extra = lambda n: [90, 0, 90, 0, 4, 0, 1, 0, 3, 0, 2, 0, 5][n]
    found = copy_bandwidth(working_set=1 << 10, budget=0.0)
    assert found.bytes_per_s == pytest.approx((1 << 10) / 3)


def test_bandwidth_is_said_in_gigabytes():
    known = Bandwidth(12.345e9, 512 << 20, "cpu")
    assert str(known) == repr(known) == "copying 512 MiB in all: ⟨12.3 GB/s⟩"
