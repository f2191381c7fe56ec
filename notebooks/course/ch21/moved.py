"""What several versions of a program move in one call, side by side."""

from __future__ import annotations

from typing import Any

import torch

from helpers.plots import COLOURS, HATCHES, Picture, styled
from helpers.text import count, size

PARTS = ("matrix products and convolutions (library)", "kernels between them")


@styled
def moved_picture(versions: dict[str, Any]) -> Picture:
    """Draw the bytes of each: by libraries, and by Inductor's kernels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.4 + 0.62 * len(versions)), layout="constrained")
    axes, words = figure.subplots(), []
    for row, (name, found) in enumerate(versions.items()):
        parts = [sum(k.bytes for k in side) for side in sides(found)]
        left = 0.0
        for n, part in enumerate(parts):
            look = {
                "color": COLOURS[n],
                "hatch": HATCHES[n],
                "edgecolor": "white",
            }
            label = PARTS[n] if row == 0 else None
            axes.barh(row, part / 2**20, 0.6, left=left, label=label, **look)
            left += part / 2**20
        axes.text(left, row, f" {size(found.bytes)}", va="center")
        words.append(f"{name}: {size(parts[0])} and {size(parts[1])}")
    axes.set(yticks=range(len(versions)), yticklabels=list(versions))
    axes.set(ylim=(len(versions) - 0.4, -0.6), xlabel="moved in one call (MiB)")
    axes.set_xlim(0, 1.2 * max(v.bytes for v in versions.values()) / 2**20)
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper left", ncols=2)
    what = "Bytes moved in one call by libraries and by the kernels between them"
    return Picture(figure, f"{what}. {'; '.join(words)}.")


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
