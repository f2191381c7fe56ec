"""Are compiled results right?  float64 judges them, forward and backward."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from helpers.tensors import tensors


def right_values(
    eager: Callable[..., Any], compiled: Callable[..., Any], *inputs: Any
) -> bool:
    """Return whether *compiled* is as near to float64 as *eager* is.

    Both are called with copies of *inputs*; outputs and the gradients of all
    floating-point inputs are compared.  A result may be off by four times what
    eager is off, and by four roundings of its dtype.
    """

    def results(function: Any, dtype: torch.dtype | None = None) -> list[Any]:
        return pytree.tree_leaves(forward_and_backward(function, inputs, dtype))

    exact = results(_in_float64(eager), torch.float64)
    usual, ours = results(eager), results(compiled)
    return len(ours) == len(usual) and all(map(as_near, exact, usual, ours))


def _in_float64(eager: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(eager, torch.nn.Module):
        return copy.deepcopy(eager).double()
    return eager


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
        # Not all ones: a permuted gradient must not look right.
        starts = [torch.linspace(-1, 2, r.numel()).to(r).view_as(r) for r in roots]
        found = torch.autograd.grad(roots, wanted, starts, allow_unused=True)
        slopes = dict(zip(map(id, wanted), found, strict=True))
    known = pytree.tree_map_only(torch.Tensor, torch.detach, outputs)
    return known, pytree.tree_map(lambda x: slopes.get(id(x)), call)


def as_near(exact: Any, usual: Any, ours: Any) -> bool:
    """Return whether *ours* is as near to *exact* as *usual* is, about."""
    if not (isinstance(usual, torch.Tensor) and isinstance(ours, torch.Tensor)):
        return type(usual) is type(ours) and usual == ours
    if exact.shape != ours.shape or usual.dtype != ours.dtype:
        return False
    if not ours.is_floating_point() or not ours.numel():
        return torch.equal(usual, ours)
    for kind in (torch.isnan, torch.isposinf, torch.isneginf):
        if not torch.equal(kind(usual), kind(ours)):
            return False
    dtype = ours.dtype
    exact, usual, ours = exact.double(), usual.double(), ours.double()
    size = exact.abs().nan_to_num(0, 0, 0).max()
    rounding = torch.finfo(dtype).eps * size
    off, usually_off = (
        (x - exact).abs().nan_to_num(0, 0, 0).max() for x in (ours, usual)
    )
    return bool(off <= 4 * (usually_off + rounding))
