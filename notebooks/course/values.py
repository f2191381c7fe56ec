"""Are compiled results right?  float64 judges them, forward and backward."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def right_values(
    eager: Callable[..., Any], compiled: Callable[..., Any], *inputs: Any
) -> bool:
    """Return whether *compiled* is as near to float64 as *eager* is.

    Both are called with copies of *inputs*; outputs and the gradients of all
    floating-point inputs are compared.  A result may be off by four times what
    eager is off, and by four roundings of its dtype.
    """
    exact = _forward_and_backward(_in_float64(eager), inputs, torch.float64)
    usual = _forward_and_backward(eager, inputs)
    ours = _forward_and_backward(compiled, inputs)
    return len(ours) == len(usual) and all(map(as_near, exact, usual, ours))


def _in_float64(eager: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(eager, torch.nn.Module):
        return copy.deepcopy(eager).double()
    return eager


def _forward_and_backward(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    dtype: torch.dtype | None = None,
) -> list[torch.Tensor]:
    """Return the outputs of a call, and the gradients that they give."""

    def prepared(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().clone()
        if not value.is_floating_point():
            return value
        return value.to(dtype or value.dtype).requires_grad_()

    call = pytree.tree_map(prepared, inputs)
    torch.manual_seed(0)
    leaves = pytree.tree_leaves(function(*call))
    outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    roots = [output for output in outputs if output.requires_grad]
    wanted = [x for x in pytree.tree_leaves(call) if _needs_gradient(x)]
    if isinstance(function, torch.nn.Module):
        wanted += [p for p in function.parameters() if p.requires_grad]
    gradients: tuple[Any, ...] = ()
    if roots and wanted:
        # Not all ones: a permuted gradient must not look right.
        starts = [
            torch.linspace(-1, 2, r.numel()).to(r).view_as(r) for r in roots
        ]
        gradients = torch.autograd.grad(
            roots, wanted, starts, allow_unused=True
        )
    known = [gradient for gradient in gradients if gradient is not None]
    return [tensor.detach() for tensor in (*outputs, *known)]


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def as_near(
    exact: torch.Tensor, usual: torch.Tensor, ours: torch.Tensor
) -> bool:
    """Return whether *ours* is as near to *exact* as *usual* is, about."""
    if exact.shape != ours.shape or usual.dtype != ours.dtype:
        return False
    if not ours.is_floating_point() or not ours.numel():
        return torch.equal(usual, ours)
    if not torch.equal(usual.isfinite(), ours.isfinite()):
        return False
    if not torch.equal(usual.isnan(), ours.isnan()):
        return False
    dtype = ours.dtype
    exact, usual, ours = exact.double(), usual.double(), ours.double()
    size = exact.abs().nan_to_num(0, 0, 0).max()
    rounding = torch.finfo(dtype).eps * size
    off, usually_off = (
        (x - exact).abs().nan_to_num(0, 0, 0).max() for x in (ours, usual)
    )
    return bool(off <= 4 * (usually_off + rounding))
