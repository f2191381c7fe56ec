"""One call as a strip: a piece for each launch, as wide as what it moves."""

from __future__ import annotations

from typing import Any

from course.drawing import BLUE, GREEN, VERMILION, bars
from helpers.plots import Picture
from helpers.text import count, mark, size

KINDS = ("matrix products", "attention", "everything between")
_LOOKS = dict(zip(KINDS, (BLUE, GREEN, VERMILION), strict=True))
# The kind and the bytes of each launch, in order.
Strip = list[tuple[str, int]]


def kind_of(name: str) -> str:
    """Return what an operation or a library call is, by its name."""
    last = name.rpartition(".")[2]
    if last in ("mm", "addmm", "bmm"):
        return KINDS[0]
    return KINDS[1] if "attention" in last else KINDS[2]


def eager_strip(calls: Any) -> Strip:
    """Return the strip of what eager runs, from ``eager_bytes(...)``."""
    return [(kind_of(name), moved) for name, moved in calls.calls]


def compiled_strip(launches: Any) -> Strip:
    """Return the strip of what compiled code runs, from ``kernels(...)``."""
    return [
        (
            kind_of(kernel.name) if kernel in launches.library else KINDS[2],
            kernel.bytes,
        )
        for kernel in launches.kernels
    ]


def total(strip: Strip, kind: str) -> int:
    """Return the bytes that the launches of one kind move."""
    return sum(moved for its_kind, moved in strip if its_kind == kind)


def draw(strips: dict[str, Strip]) -> Picture:
    """Return the strips below one another, on one scale."""
    rows, words = {}, []
    for name, strip in strips.items():
        launches = count(len(strip), "launch").replace("chs", "ches")
        pieces = [(kind, moved / 2**20) for kind, moved in strip]
        whole = sum(moved for _, moved in pieces)
        rows[f"{name}: {launches}, {whole:.0f} MiB"] = pieces
        parts = [f"{kind} {size(total(strip, kind))}" for kind in KINDS]
        words.append(f"{name}: {mark(f'{launches}: ' + ', '.join(parts))}.")
    unit = "moved to and from memory in one call (MiB)"
    title = "one call, launch after launch"
    words = " ".join(words)
    return bars(rows, _LOOKS, unit=unit, title=title, alt=words, above=True)
