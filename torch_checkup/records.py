"""What torch kept of this process's compiles: seconds by phase, and what caches found.

``cold_start`` reads it in the process of a start.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .helpers import _torch, correctness
from .helpers.errors import InputError

# Each kind of cache: torch's counters of what was found, not found, and not looked
# for, and how torch's events of it begin.
_CACHES = {
    "AOTAutogradCache": ("aot_autograd", "autograd_cache", "aotautograd_cache_"),
    "FxGraphCache": ("inductor", "fxgraph_cache", "fx_graph_cache_"),
}


def phases() -> dict[str, float]:
    """Return seconds by phase, from torch's records of this process's compiles."""

    def recorded(name: str) -> float:
        field = f"{name}_cumulative_compile_time_us"
        times = (getattr(record, field, None) for record in _torch.compile_history)
        return sum(time or 0 for time in times) / 1e6

    def timed(name: str) -> float:
        return sum(_torch.compile_seconds.get(name, ()))

    aot = recorded("aot_autograd")
    # A graph that was found is not lowered, but its code is loaded.
    loads = timed("AOTAutogradCache.inductor_load") or (
        0.0 if recorded("inductor") else timed("PyCodeCache.load_by_key_path")
    )
    inductor = min(recorded("inductor") + loads, aot)
    building = min(timed("compile_file"), inductor)
    return {
        "Dynamo": max(recorded("dynamo") - aot, 0.0),
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
    """Return whether both give the same answer and gradients; None: nothing to see."""
    trial = correctness.Trial((eager, compiled), ())
    with trial.state:
        try:
            first = trial.outcome("compiled", compiled)
            return correctness.agreement(trial, eager, compiled, first).matches
        except InputError:
            return None
