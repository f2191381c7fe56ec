"""Are compiled results right?  float64 judges them, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from helpers.correctness import usual_and_exact
from helpers.tensors import tensors


def right_values(
    eager: Callable[..., Any], compiled: Callable[..., Any], *inputs: Any
) -> bool:
    """Return whether *compiled* is as near to float64 as *eager* is.

    Both are called with copies of *inputs*; outputs and the gradients of all
    floating-point inputs are compared.  A result may be off by four times what
    eager is off, and by four roundings of its dtype.
    """
    usual, exact = usual_and_exact(lambda: forward_and_backward(eager, inputs))
    ours = forward_and_backward(compiled, inputs)
    sides = [pytree.tree_leaves(side) for side in (exact, usual, ours)]
    return len(sides[2]) == len(sides[1]) and all(map(as_near, *sides))


def right_answer(
    eager: Callable[..., Any], answer: Any, *inputs: Any, **kwargs: Any
) -> bool:
    """Return whether *answer* is as near to float64 as what *eager* returns."""
    usual, exact = usual_and_exact(eager, *inputs, **kwargs)
    sides = [list(tensors(side)) for side in (exact, usual, answer)]
    return len(sides[2]) == len(sides[1]) and all(map(as_near, *sides))


def forward_and_backward(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    dtype: torch.dtype | None = None,
) -> tuple[Any, list[Any]]:
    """Return what a call gives, and the gradients of all that it was given.

    Those of a module's parameters follow.  Both keep their nests: a tensor is
    in its place, and None where something else was, or there is no gradient.
    """

    def ready(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().clone()
        if not value.is_floating_point():
            return value
        return value.to(dtype or value.dtype).requires_grad_()

    call = [pytree.tree_map(ready, given) for given in inputs]
    torch.manual_seed(0)
    outputs = function(*call)
    if isinstance(function, torch.nn.Module):
        call += function.parameters()
    roots = [x for x in tensors(outputs) if x.requires_grad]
    wanted = [x for x in tensors(call) if x.requires_grad]
    slopes: dict[int, Any] = {}
    if roots and wanted:
        found = torch.autograd.grad(
            roots, wanted, map(_start, roots), allow_unused=True
        )
        slopes = dict(zip(map(id, wanted), found, strict=True))
    known = pytree.tree_map_only(torch.Tensor, torch.detach, outputs)
    return known, pytree.tree_map(lambda x: slopes.get(id(x)), call)


def _start(root: torch.Tensor) -> torch.Tensor:
    """Return the gradient to begin with; a permuted one must not look right."""
    ramp = torch.linspace(-1, 2, root.numel(), dtype=torch.float32)
    return ramp.to(root).view_as(root)


def as_near(exact: Any, usual: Any, ours: Any) -> bool:
    """Return whether *ours* is as near to *exact* as *usual* is, about.

    It may be off by four times what *usual* is off, and by four roundings of
    the largest number.  What is no number must be the same in both.
    """
    if not (isinstance(usual, torch.Tensor) and isinstance(ours, torch.Tensor)):
        return type(usual) is type(ours) and usual == ours
    if exact.shape != ours.shape or usual.dtype != ours.dtype:
        return False
    if not ours.is_floating_point():
        return torch.equal(usual, ours)
    finite = usual.isfinite()
    if not torch.allclose(usual[~finite], ours[~finite], 0, 0, equal_nan=True):
        return False
    if not finite.any():
        return True
    exact, usual, mine = (x[finite].double() for x in (exact, usual, ours))
    rounding = torch.finfo(ours.dtype).eps * exact.abs().max()
    off, usually_off = ((x - exact).abs().max() for x in (mine, usual))
    return bool(off <= 4 * (usually_off + rounding))
