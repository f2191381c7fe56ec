"""What several versions of a program move in one call, side by side."""

from __future__ import annotations

from typing import Any

import torch

from course.drawing import BLUE, VERMILION, bars
from helpers.plots import Picture
from helpers.text import count, mark, size

LIBRARY, BETWEEN = "matrix products and convolutions (library)", "kernels between them"


def moved_picture(versions: dict[str, Any], varies: tuple[str, ...] = ()) -> Picture:
    """Draw the bytes of each: by libraries, and by Inductor's kernels.

    In words, those of the versions in *varies* are marked: they depend on the CPU.
    """
    rows, words = {}, []
    for name, found in versions.items():
        library, between = (sum(k.bytes for k in side) for side in sides(found))
        rows[name] = [(LIBRARY, library / 2**20), (BETWEEN, between / 2**20)]
        moved = f"{size(library)} and {size(between)}"
        words.append(f"{name}: {mark(moved) if name in varies else moved}")
    what = "Bytes moved in one call by libraries and by the kernels between them"
    return bars(
        rows,
        {LIBRARY: BLUE, BETWEEN: VERMILION},
        alt=f"{what}. {'; '.join(words)}.",
        unit="moved in one call (MiB)",
        title="what a call moves to and from memory",
        ends=[size(found.bytes) for found in versions.values()],
    )


def sides(found: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the library calls and the generated kernels."""
    return found.library, found.generated


def launches(found: Any) -> str:
    """Return how many kernels and library calls there are, in words."""
    library, generated = sides(found)
    calls = count(len(library), "library call")
    return f"{count(len(generated), 'kernel')}, {calls}"


def layout(x: torch.Tensor) -> str:
    """Return how the memory of a batch of pictures is ordered."""
    last = x.is_contiguous(memory_format=torch.channels_last)
    return "channels_last" if last else "channels first"
