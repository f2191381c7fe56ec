"""The memory of a call, counted from its allocations and not by a clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from torch.profiler import ProfilerActivity, profile


def peak(call: Callable[[], object]) -> int:
    """Return the most bytes that *call* holds at once, above what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    events = seen.profiler.kineto_results.events()
    memory = [event for event in events if event.name() == "[memory]"]
    memory.sort(key=lambda event: event.start_ns())
    return max(accumulate((event.nbytes() for event in memory), initial=0))
