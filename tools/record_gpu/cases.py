"""What every recorded case shares: how it is set up, timed, counted and cleared away.

A case starts with nothing compiled, empty caches on disk and a memory pool that has
given back what it did not use, so that no case pays or profits from the one before.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._inductor.utils import fresh_cache

from helpers.benchmark import Comparison, compare

Facts = dict[str, int | float | str]
LAST = 9  # the rank of what must come after all that is timed


@dataclass(frozen=True)
class Setting:
    """Where and how large: *quick* is toy sizes and the shortest timing, for tests."""

    device: str
    quick: bool = False

    def size(self, full: Any, toy: Any) -> Any:
        """Return the size of the GPU's experiment, or that of the quick one."""
        return toy if self.quick else full

    def randn(
        self, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0
    ) -> torch.Tensor:
        """Return normal numbers, the same in every run."""
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(
            *shape, generator=generator, device=self.device, dtype=torch.float32
        ).to(dtype)


@dataclass(frozen=True)
class Outcome:
    """What running a case gave."""

    comparison: Comparison | None = None
    facts: Facts = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One thing to measure, and what it asks of the machine and of the clock.

    *seconds* is about what it takes on an H200: it decides whether the case still
    fits, and five times that is when it is broken off.  Lower *rank* comes first.
    """

    experiment: str
    series: str
    value: int | float | str
    run: Callable[[Setting], Outcome]
    rank: int = 1
    seconds: float = 5.0
    bytes: int = 0
    gpu: bool = False

    @property
    def key(self) -> tuple[str, str, int | float | str]:
        """What its finding has as key."""
        return self.experiment, self.series, self.value


def free() -> None:
    """Drop what is compiled and recorded, and give unused memory back."""
    torch.compiler.reset()  # the CUDA graphs go, too, and with them their pools
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


@contextmanager
def cold() -> Iterator[None]:
    """Run the block as in a new process: nothing compiled, nothing on disk."""
    free()
    try:
        with fresh_cache():
            yield
    finally:
        free()


def race(
    setting: Setting,
    eager: Callable,
    compiled: Callable,
    *inputs: Any,
    budget: float = 1.0,
    facts: Callable[[Comparison], Facts] = lambda comparison: {},
    **options: Any,
) -> Outcome:
    """Return ``compare`` of two sides from a cold start, and what memory they hold.

    compare() synchronises, and warms each side with three calls at least after the
    first: a CUDA graph is recorded in the second.
    """
    with cold():
        before = reserved()
        comparison = compare(
            eager,
            compiled,
            *inputs,
            budget=0.001 if setting.quick else budget,
            **options,
        )
        gc.collect()
        known = facts(comparison)
        if torch.cuda.is_available():
            known["held, bytes"] = max(0, reserved() - before)
        return Outcome(comparison, known)


def reserved() -> int:
    """Return the bytes that the GPU's allocator keeps and could not give back."""
    if not torch.cuda.is_available():
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def rate(moved: int) -> Callable[[Comparison], Facts]:
    """Return a function that says how fast the second side moves so many bytes."""
    return lambda comparison: {"GB/s": moved / comparison.median_s[1] / 1e9}


def count_launches(call: Callable[[], Any]) -> Facts:
    """Return what the profiler sees of one warm call: kernels, and launches of them.

    A replayed CUDA graph is one launch of many kernels.  The profiler slows down
    what its process launches afterwards, so this comes after all that is timed.
    """
    from torch.profiler import ProfilerActivity, profile

    # Taken down and set up again, the tracer and CUDA graphs do not go together.
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")
    for _ in range(4):  # compile, record, replay
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    return count_events(profiler.events())


_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")


def count_events(events: Iterable[Any]) -> Facts:
    """Return how many kernels, launches and copies are among a profiler's events.

    Raises RuntimeError when there is no kernel: then nothing was traced.
    """
    kernels = launches = copies = 0
    for event in events:
        launches += event.name.startswith(_LAUNCHES)
        if event.device_type == torch.autograd.DeviceType.CUDA:
            if event.name.startswith(("Memcpy", "Memset")):
                copies += 1
            elif not event.is_user_annotation:  # a named region is no kernel
                kernels += 1
    if not kernels:
        raise RuntimeError(
            "the profiler saw no kernel: may this process trace the GPU?"
        )
    return {"kernels": kernels, "launches": launches, "copies": copies}
