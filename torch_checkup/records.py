"""What torch kept of this process's compiles: seconds by phase, and what caches found.

``cold_start`` reads it in the process of a start.  `whole` and `phases` are for others
as well, also for a single compile: ``phases([record])``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .helpers import _torch, correctness
from .helpers.errors import InputError

# Each kind of cache: torch's counters of what was found, not found, and not looked
# for, and how torch's events of it begin.
_CACHES = {
    "AOTAutogradCache": ("aot_autograd", "autograd_cache", "aotautograd_cache_"),
    "FxGraphCache": ("inductor", "fxgraph_cache", "fx_graph_cache_"),
}


def whole(phase: str, records: Iterable[Any] | None = None) -> float:
    """Return the seconds of one of torch's phases, with all that lies inside it.

    *phase* has torch's name: ``dynamo``, in which lies ``aot_autograd``, in which lies
    ``inductor``, in which lies ``inductor_code_gen``; or ``backward``.  *records* are
    some of those that torch keeps of compiles, by default the last 64 of this process.
    """
    field = f"{phase}_cumulative_compile_time_us"
    chosen = _torch.compile_history if records is None else records
    return sum(getattr(record, field, None) or 0 for record in chosen) / 1e6


def phases(records: Sequence[Any] | None = None) -> dict[str, float]:
    """Return the seconds that each phase took for itself.

    Without *records*, of this process: there, code that was found in a cache is loaded
    by Inductor, and ``build`` is the time of compilers and linkers.  Of *records* (as
    for `whole`) it is how long each compile waited for these.
    """

    def timed(name: str) -> float:
        return sum(_torch.compile_seconds.get(name, ()))

    aot, lowered = whole("aot_autograd", records), whole("inductor", records)
    loads = 0.0
    if records is None:
        # A graph that was found is not lowered, but its code is loaded.
        loads = timed("AOTAutogradCache.inductor_load") or (
            0.0 if lowered else timed("PyCodeCache.load_by_key_path")
        )
        waited = timed("compile_file")
    else:  # named for Triton, and counts the wait for C++ as well
        waited = sum(record.triton_compile_time_us or 0 for record in records) / 1e6
    inductor = min(lowered + loads, aot)
    building = min(waited, inductor)
    return {
        "Dynamo": max(whole("dynamo", records) - aot, 0.0),
        "AOTAutograd": aot - inductor,
        "Inductor": inductor - building,
        "build": building,
    }


def lookups(events: list[Any]) -> list[dict[str, Any]]:
    """Return what each kind of cache found, why not, and its newest key's parts."""
    found = []
    for kind, (group, prefix, begins) in _CACHES.items():
        counts = _torch.counters[group]
        hits, misses, bypasses = (
            counts[f"{prefix}_{word}"] for word in ("hit", "miss", "bypass")
        )
        reasons, parts = [], dict[str, str]()
        for event in events:
            if event.kind.startswith(begins) and event.payload[:1] == "{":
                told = json.loads(event.payload)
                reasons.append(told.get("cache_bypass_reason") or "")
                parts.update(components(told.get("components") or []))
        row = {"kind": kind, "hits": hits, "misses": misses, "bypasses": bypasses}
        why = tuple(dict.fromkeys(filter(None, reasons)))
        found.append({**row, "reasons": why, "parts": parts})
    return found


def components(lines: list[str]) -> dict[str, str]:
    """Return the hash of each part of a key, by the name that torch gives the part."""
    parts = {}
    for line in lines:
        number, _, rest = line.partition("] ")
        parts[rest.partition(": ")[0]] = number.lstrip("[")
    return parts


def agrees(eager: Callable[[], Any], compiled: Callable[[], Any]) -> bool | None:
    """Return whether both give the same answer and gradients; None: nothing to see.

    What *eager* compiles inside runs eagerly, too.
    """

    def usual() -> Any:
        with torch.compiler.set_stance("force_eager"):
            return eager()

    trial = correctness.Trial((usual, compiled), ())
    with trial.state:
        try:
            first = trial.outcome("compiled", compiled)
            return correctness.agreement(trial, usual, compiled, first).matches
        except InputError:
            return None
