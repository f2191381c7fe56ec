"""Starts that were recorded, and what the caches say to a second start."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

from course.drawing import BLUE, GREEN, GREY, VERMILION, Look, bars
from helpers.plots import Picture
from helpers.text import mark, seconds

_LOOKS = {
    "Dynamo": BLUE,
    "AOTAutograd": Look("#E69F00", "\\\\"),
    "Inductor": GREEN,
    "build": VERMILION,
    "the rest: loading, running": GREY,
}


def second_start(fn: Callable[..., Any], *inputs: torch.Tensor) -> tuple[str, str]:
    """Return what the second start of *fn* heard of the two caches.

    Both starts have one cache folder.  If an input requires a gradient, a
    backward is a part of a start.
    """
    trains = any(x.requires_grad for x in inputs)
    with fresh_cache():
        for _ in range(2):
            torch.compiler.reset()
            counters.clear()
            with torch.set_grad_enabled(trains):
                answer = torch.compile(fn)(*inputs)
            if trains:
                torch.autograd.grad(answer.sum(), inputs)
    return (
        _heard(counters["aot_autograd"], "autograd_cache_"),
        _heard(counters["inductor"], "fxgraph_cache_"),
    )


def _heard(counts: Counter[str], prefix: str) -> str:
    words = {"bypass": "not asked", "miss": "missed", "hit": "found"}
    said = (word for state, word in words.items() if counts[prefix + state])
    return next(said, "")


def recorded_starts(name: str) -> dict[str, dict[str, Any]]:
    """Return the first start of each way in a record of data/benchmarks."""
    file = Path(__file__).parents[2] / "data" / "benchmarks" / f"{name}.json"
    ways = json.loads(file.read_text("utf-8"))["result"]["ways"]
    return {way["name"]: way["starts"][0] for way in ways}


def phases_picture(starts: dict[str, dict[str, Any]]) -> Picture:
    """Return the seconds of each start as a bar, cut into its phases."""
    told, rows, ends = [], {}, []
    *names, rest = _LOOKS
    for label, start in starts.items():
        parts = {name: start["phases"].get(name, 0.0) for name in names}
        waited = start["load_s"] + start["first_s"]
        parts[rest] = max(waited - sum(parts.values()), 0.0)
        rows[label] = parts.items()
        ends.append(seconds(sum(parts.values())))
        every = ", ".join(f"{name} {seconds(took)}" for name, took in parts.items())
        told.append(f"{label}: {mark(every)}")
    return bars(
        rows,
        _LOOKS,
        ends=ends,
        unit="seconds until the first answer",
        title="what a fresh process waits for",
        alt="Seconds until the first answer. " + ". ".join(told) + ".",
        legend="outside upper left",
    )
