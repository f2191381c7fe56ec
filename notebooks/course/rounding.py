"""How far a result lies from float64, and a picture of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from helpers.plots import CEILING, COLOURS, QUIET, Picture, styled
from helpers.text import mark

LOOKS = (
    {"color": COLOURS[0], "marker": "o", "ls": "-"},
    {"color": COLOURS[1], "marker": "s", "ls": "--"},
    {"color": CEILING, "marker": "x", "ls": ":", "ms": 14, "mew": 3},
)


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the distance from *exact* as a share of its size (RMS)."""
    off = (result.double() - exact).square().mean().sqrt()
    return float(off / exact.square().mean().sqrt())


def nearest(exact: torch.Tensor, dtype: torch.dtype) -> float:
    """Return the error of what lies nearest to *exact* in *dtype*."""
    return error(exact.to(dtype), exact)


def zeros_in(
    loss: Callable[..., Any], scale: float, net: Any, *data: Any
) -> float:
    """Return which share of the gradients of *net* is 0, the loss scaled."""
    found = torch.autograd.grad(loss(*data) * scale, [*net.parameters()])
    whole = torch.cat([gradient.flatten() for gradient in found])
    return float((whole == 0).double().mean())


@styled
def rounding_picture(
    errors: dict[int, dict[str, float]], floor: float
) -> Picture:
    """Draw errors by the number of operations; *floor* is one rounding."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    counts, names = list(errors), list(next(iter(errors.values())))
    for name, look in zip(names, LOOKS, strict=False):
        axes.plot(
            counts, [errors[n][name] for n in counts], label=name, **look
        )
    axes.axhline(floor, color=QUIET, lw=1.5)
    axes.text(counts[-1], floor * 0.97, "one rounding", ha="right", va="top")
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.set(xlabel="multiplications in a row", ylim=(0, None))
    axes.set_title("distance from float64, as a share of the result")
    figure.legend(loc="outside upper left", ncols=len(names))
    said = "; ".join(
        f"{n} multiplications: "
        + ", ".join(mark(f"{name} {errors[n][name]:.2%}") for name in names)
        for n in counts
    )
    return Picture(figure, f"Errors against float64. {said}.")
