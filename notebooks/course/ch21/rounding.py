"""How far a result lies from float64, a picture of it, and races of dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from helpers import compare
from helpers.plots import CEILING, COLOURS, QUIET, Picture, styled
from helpers.session import fresh_code
from helpers.text import count, mark

LOOKS = (
    {"color": COLOURS[0], "marker": "o", "ls": "-"},
    {"color": COLOURS[1], "marker": "s", "ls": "--"},
    {"color": CEILING, "marker": "x", "ls": ":", "ms": 14, "mew": 3},
)


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the distance from *exact* as a share of its size (RMS)."""
    exact = exact.double()
    off = (result.double() - exact).square().mean().sqrt()
    return float(off / exact.square().mean().sqrt())


def nearest(exact: torch.Tensor, dtype: torch.dtype) -> float:
    """Return the error of what lies nearest to *exact* in *dtype*."""
    return error(exact.to(dtype), exact)


def slope(
    head: Callable[..., Any], x: torch.Tensor, w: torch.Tensor, context: Any
) -> torch.Tensor:
    """Return the gradient of *w*: the forward in *context*, the backward outside."""
    leaf = w.clone().requires_grad_()
    with context:
        value = head(x, leaf)
    value.backward()
    assert leaf.grad is not None
    return leaf.grad


def zeros_in(loss: Callable[..., Any], scale: float, net: Any, *data: Any) -> float:
    """Return which share of the gradients of *net* is 0, the loss scaled."""
    found = torch.autograd.grad(loss(*data) * scale, [*net.parameters()])
    whole = torch.cat([gradient.flatten() for gradient in found])
    return float((whole == 0).double().mean())


# ------------------------------------------------------------ races


def raced(
    function: Callable[..., Any], dtype: torch.dtype, *inputs: torch.Tensor
) -> str:
    """Race compiled *function* in *dtype* against itself in float32.

    Return what compare() says, and the error of the narrow one.
    """
    full, low = (torch.compile(fresh_code(function)) for _ in range(2))
    narrow = [x.to(dtype) for x in inputs]
    off = error(low(*narrow), function(*(x.double() for x in inputs)))
    race = compare(
        lambda: full(*inputs),
        lambda: low(*narrow),
        names=("float32", str(dtype)),
        same_answer=False,
        budget=1,
    )
    return f"{race.sentence()}, error {mark(f'{off:.1e}')}"


# ----------------------------------------------------------------- the picture


@styled
def rounding_picture(errors: dict[int, dict[str, float]], floor: float) -> Picture:
    """Draw errors by the number of operations; *floor* is one rounding."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    counts, names = list(errors), list(next(iter(errors.values())))
    for name, look in zip(names, LOOKS, strict=False):
        values = [errors[n][name] for n in counts]
        axes.plot(counts, values, label=name, **look)
    axes.axhline(floor, color=QUIET, lw=1.5)
    below = {"xytext": (0, -14), "textcoords": "offset points"}
    look = {"ha": "center", "va": "top", "color": "#444444"}
    axes.annotate("one rounding", (counts[1], floor), **below, **look)
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.1%}")
    axes.set(xlabel="multiplications in a row", ylim=(0, None))
    axes.set_title("distance from float64, as a share of the result")
    figure.legend(loc="outside upper left", ncols=len(names))
    said = "; ".join(
        f"{count(n, 'multiplication')}: "
        + ", ".join(f"{name} {mark(f'{errors[n][name]:.2%}')}" for name in names)
        for n in counts
    )
    return Picture(figure, f"Errors against float64. {said}.")
