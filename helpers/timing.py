"""How a function is timed: clocks, samples, blocks, and what disturbed them.

A *sample* is a few calls back to back, 100 µs or more; a *block* is samples for about
8 ms, of which the first two fifths are thrown away, so that what ran before has left
the cache.  `helpers.benchmark` races two functions in such blocks.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import torch

from . import text
from .results import Result
from .stats import quantile
from .text import mark

try:
    import resource
except ImportError:  # Windows
    resource = None

_NEARLY = 1.5  # two functions that share a plan
_BLOCK_SAMPLES = 80
_DISCARDED = 0.4
_WAITED = 0.02
"""A sample in which our threads waited for more than this share is disturbed."""
_PROCESS, _CORES = "/proc/self", "/sys/devices/system/cpu"
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h


def device() -> str:
    """Return where to run: ``cuda`` where there is a GPU, else ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def waiting_threads() -> Iterator[Callable[[], float]]:
    """Give a function that returns how long threads of this process had to wait.

    Seconds for which a thread could run but another process had its core, summed over
    the threads that there are now.  Linux counts them per thread in
    ``/proc/self/task/*/schedstat``, second field, in nanoseconds; elsewhere this
    is always 0, and what disturbed a timing goes unnoticed.
    """
    with ExitStack() as stack:
        files = []  # kept open: 3 µs a thread and reading, not 10
        for thread in _threads():
            with suppress(OSError):  # the thread has just ended
                file = os.open(f"{_PROCESS}/task/{thread}/schedstat", os.O_RDONLY)
                files.append(file)
                stack.callback(os.close, file)

        def waited() -> float:
            total = 0
            for file in files:
                with suppress(OSError):
                    total += int(os.pread(file, 99, 0).split()[1])
            return total * 1e-9

        yield waited


def _threads() -> list[int]:
    """Return the threads of this process by number; none where there is no /proc."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(f"{_PROCESS}/task")]
    return []


class Clock:
    """The processor's clock: for functions that are done when they return.

    It is all that measuring needs of time; the tests pass one that they control.
    """

    sample_s = 100e-6  # the least a sample lasts: long against reading the clock
    now = staticmethod(time.perf_counter)
    waiting = staticmethod(waiting_threads)

    def sample(self, call: Callable[[], Any], calls: int) -> float:
        """Return seconds that *calls* calls took, the device's work included."""
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return (time.perf_counter_ns() - start) * 1e-9


class CudaClock(Clock):
    """CUDA events round the calls: launches are asynchronous, events are not.

    Where the host cannot launch as fast as the GPU works, the events hold the
    launches too, and that is then what a caller waits for.
    """

    sample_s = 500e-6  # a pair of events costs some ten microseconds

    def __init__(self) -> None:
        self._start = torch.cuda.Event(enable_timing=True)
        self._stop = torch.cuda.Event(enable_timing=True)

    def sample(self, call: Callable[[], Any], calls: int) -> float:
        self._start.record()
        for _ in range(calls):
            call()
        self._stop.record()
        self._stop.synchronize()
        return self._start.elapsed_time(self._stop) * 1e-3


def clock_for(device: str) -> Clock:
    """Return the clock that times work on *device*, ``cpu`` or ``cuda``."""
    return CudaClock() if device == "cuda" else Clock()


@dataclass(frozen=True)
class Plan:
    """How many calls make a sample, and how many samples a block."""

    calls: int
    samples: int


def plans_for(
    per_call: Sequence[float], sample_s: float = Clock.sample_s
) -> list[Plan]:
    """Return a plan for each of the functions that take *per_call* seconds a call.

    The samples of all are equally long, as long as the longest call, up to a block:
    a low quantile of short samples lies lower than one of long samples, and the
    ratio of two functions would lean towards the shorter call.  For the same reason,
    where one call is longer than a block, one sample of each function counts.
    Functions that take nearly the same share a plan: where one rounds to two calls a
    sample and the other to one, equal functions were found 4 % apart.
    """
    if max(per_call) < _NEARLY * min(per_call):
        per_call = [fmean(per_call)] * len(per_call)
    block_s = _BLOCK_SAMPLES * sample_s
    one_counts = max(per_call) > 1.25 * block_s
    sample_s = min(max(sample_s, *per_call), block_s)
    planned = []
    for seconds in per_call:
        calls = max(1, round(sample_s / seconds))
        samples = max(3, round(block_s / (calls * seconds)))
        if one_counts:
            samples = 2  # one to warm the cache, one that counts
        planned.append(Plan(calls, samples))
    return planned


@dataclass(frozen=True)
class Block:
    """Seconds per call of one block, and how much of them may have been waiting."""

    seconds: float
    waited: float = 0.0
    """0 when undisturbed; else the truth is between ``seconds - waited`` and it."""


def block(clock: Clock, call: Callable[[], Any], plan: Plan) -> Block:
    """Time one block: the lower quartile of its undisturbed samples.

    What the system does besides only ever adds time, so a low quantile is the
    steadier value.  A wait of ours for a core is seen in the sample where it happens,
    and next to a busy process most short samples have none.  Where fewer than a
    quarter were undisturbed, the sample that waited least is taken, with its wait.
    """
    samples = []  # (seconds, seconds waited by all our threads together)
    with clock.waiting() as waited:
        before, spent = waited(), 0.0
        while len(samples) < plan.samples:
            if len(samples) >= 3 and spent > 10 * _BLOCK_SAMPLES * clock.sample_s:
                break  # calls take far longer than planned
            seconds = clock.sample(call, plan.calls)
            now = waited()
            samples.append((max(seconds, 1e-12), now - before))
            before, spent = now, spent + seconds
    counted = samples[int(_DISCARDED * len(samples)) or 1 :]
    undisturbed = [seconds for seconds, wait in counted if wait <= _WAITED * seconds]
    if 4 * len(undisturbed) >= len(counted):
        return Block(quantile(undisturbed, 0.25) / plan.calls)
    seconds, wait = min(counted, key=lambda sample: sample[1] / sample[0])
    return Block(seconds / plan.calls, min(wait, 0.99 * seconds) / plan.calls)


# --- keeping the rest of the machine out ---------------------------------------


@contextmanager
def quiet_interpreter() -> Iterator[None]:
    """Collect young garbage now, and none again until the end of the block."""
    enabled = gc.isenabled()
    gc.collect(1)  # not the old: with all of torch in it, longer than some blocks
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def pinned_threads() -> Iterator[bool]:
    """Give each OpenMP thread its own core; yield whether that was done.

    Left alone, the kernel may pile two threads on one core while another is
    idle, and a parallel loop then waits for the slower.  Only for several
    threads, on Linux, with a core for each; everything is put back at the end.
    """
    places, before, pinned = _places(), dict[int, set[int]](), False
    try:
        with suppress(OSError):  # forbidden: threads stay where the kernel puts them
            before = {tid: os.sched_getaffinity(tid) for tid in places and _threads()}
            for tid, core in places.items():
                os.sched_setaffinity(tid, {core})
            pinned = bool(places)
        yield pinned
    finally:
        # A thread that was started meanwhile has inherited this one's single core.
        usual = before.get(threading.get_native_id())
        for tid in before and _threads():
            with suppress(OSError):  # the thread may have ended
                os.sched_setaffinity(tid, before.get(tid, usual))


def _places() -> dict[int, int]:
    """Return {thread: core} for this thread and its workers, or nothing."""
    wanted = torch.get_num_threads()
    if not hasattr(os, "sched_setaffinity") or wanted < 2:
        return {}
    cores = sorted(os.sched_getaffinity(0), key=lambda n: (_second_of_core(n), n))
    threads = [threading.get_native_id(), *_workers(wanted - 1)]
    if len(threads) != wanted or wanted > len(cores):
        return {}
    return dict(zip(threads, cores, strict=False))


def _second_of_core(number: int) -> bool:
    """Return whether this hyperthread shares its core with one of a lower number."""
    path = f"{_CORES}/cpu{number}/topology/thread_siblings_list"
    with suppress(OSError, ValueError):
        return int(re.split("[-,]", Path(path).read_text())[0]) < number
    return False


def _workers(wanted: int) -> list[int]:
    """Return the threads that run when a parallel loop does, this one apart."""

    def ran() -> dict[int, float]:
        """Return {thread: seconds it ran}."""
        threads = psutil.Process().threads()
        return {thread.id: thread.user_time + thread.system_time for thread in threads}

    x = torch.ones(1 << 20)
    before, end = ran(), time.monotonic() + 0.05
    while time.monotonic() < end:
        torch.add(x, 1, out=x)
    grown = {tid: seconds - before.get(tid, 0.0) for tid, seconds in ran().items()}
    grown.pop(threading.get_native_id(), None)
    busiest = sorted(grown, key=grown.__getitem__, reverse=True)[:wanted]
    return [tid for tid in busiest if grown[tid] > 0.01]


def keep_memory() -> bool:
    """Ask the allocator to keep freed memory; return whether it could be asked.

    glibc gives large freed arrays back to the system, so that every large result
    is made of fresh pages, which the kernel must first clear: on a CPU that costs
    more than the arithmetic.  Two ``mallopt`` settings end it for this process.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


@dataclass(frozen=True)
class Faults:
    """Page faults of one call, and the share of its processor time they took."""

    count: int
    share: float


def page_faults(call: Callable[[], Any], calls: int = 3) -> Faults:
    """Return the page faults per call, and the system's share; not on Windows."""
    start = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(calls):
        call()
    end = resource.getrusage(resource.RUSAGE_SELF)
    system, user = end.ru_stime - start.ru_stime, end.ru_utime - start.ru_utime
    share = system / (system + user) if system + user else 0.0
    return Faults(round((end.ru_minflt - start.ru_minflt) / calls), share)


def peak_bytes(call: Callable[[], Any], device: str) -> int | None:
    """Return the most memory one call occupied, in bytes above what was there before.

    On CUDA, the allocator's peak.  On Linux, the kernel's high-water mark, reset
    through ``/proc/self/clear_refs`` (man 5 proc); elsewhere None.
    """
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    if not sys.platform.startswith("linux"):
        return None
    try:
        # Freed memory that the allocator holds would hide what the call takes.
        ctypes.CDLL(None).malloc_trim(0)
        Path(f"{_PROCESS}/clear_refs").write_text("5")
        before = psutil.Process().memory_info().rss
        call()
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"{_PROCESS}/status").read_text())
        return max(0, 1024 * int(peak[1]) - before) if peak else None
    except OSError:
        return None


@dataclass(frozen=True, repr=False)
class Bandwidth(Result):
    """What copying a large array reaches here, each byte counted as it moves."""

    bytes_per_s: float
    working_set: int
    device: str

    def __str__(self) -> str:
        rate = mark(f"{self.bytes_per_s / 1e9:.3g} GB/s")
        return f"copying {text.size(self.working_set)} in all: {rate}"


def copy_bandwidth(
    working_set: int = 512 << 20, device: str = "cpu", budget: float = 1.0
) -> Bandwidth:
    """Return the bandwidth of ``copy_`` between two arrays written before.

    *working_set* is source and target together, in bytes; at 256 MiB and more it
    does not fit the caches of today's processors.  *budget* is in seconds, and five
    blocks are timed in any case.  One read and one write are counted per element, as
    in STREAM's *copy* (McCalpin, 1995); the write's own read for ownership is not.
    """
    source = torch.ones(working_set // 8, device=device)
    target = torch.zeros_like(source)
    clock = clock_for(source.device.type)  # "cuda:1" has the clock of "cuda"
    call = partial(target.copy_, source)
    here = torch.cuda.device(source.get_device())  # its stream; -1, the CPU, is none
    with here, quiet_interpreter(), pinned_threads():
        once = min(clock.sample(call, 1) for _ in range(3))
        (plan,) = plans_for([once], clock.sample_s)
        seconds, start = [], clock.now()
        while clock.now() - start < budget or len(seconds) < 5:
            seconds.append(block(clock, call, plan).seconds)
    return Bandwidth(working_set / quantile(seconds, 0.25), working_set, device)
