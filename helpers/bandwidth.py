"""The ceiling of a memory-bound function: how fast this machine copies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from helpers import text
from helpers.clock import Plan, block, clock_for, pinned_threads, quiet_interpreter
from helpers.results import stored
from helpers.stats import quantile
from helpers.text import mark


@stored
@dataclass(frozen=True)
class Bandwidth:
    """What copying a large array reaches here, each byte counted as it moves."""

    bytes_per_s: float
    working_set: int
    device: str

    def __str__(self) -> str:
        rate = mark(f"{self.bytes_per_s / 1e9:.3g} GB/s")
        return f"copying {text.size(self.working_set)} in all: {rate}"

    __repr__ = __str__


def copy_bandwidth(
    working_set: int = 512 << 20, device: str = "cpu", budget: float = 1.0
) -> Bandwidth:
    """Return the bandwidth of ``copy_`` between two arrays written before.

    *working_set* is source and target together, in bytes; at 256 MiB and more it
    does not fit the caches of today's processors.  One read and one write are
    counted per element, as in STREAM's *copy* (McCalpin, 1995); the write's own
    read for ownership is not counted.
    """
    import torch

    source = torch.ones(working_set // 8, device=device)
    target = torch.zeros_like(source)
    clock = clock_for(device)
    call = partial(target.copy_, source)
    warm = min(clock.sample(call, 1) for _ in range(3))
    plan = Plan.for_call(warm, clock.sample_s)
    times, start = [], clock.now()
    with quiet_interpreter(), pinned_threads():
        while clock.now() - start < budget or len(times) < 5:
            times.append(block(clock, call, plan).seconds)
    return Bandwidth(working_set / quantile(times, 0.25), working_set, device)
