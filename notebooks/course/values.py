"""Are compiled results right?  The judge of `compare` says so, by float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from helpers.correctness import right, share_of
from helpers.judge import differences
from helpers.tensors import tensors


def right_values(
    eager: Callable[..., Any], compiled: Callable[..., Any], *inputs: Any
) -> bool:
    """Return whether *compiled* is about as near to float64 as *eager* is.

    Both are called with copies of *inputs*; outputs and the gradients of all
    floating-point inputs and parameters are compared.  What is drawn after this is the
    same on each machine.
    """
    torch.manual_seed(0)
    return not differences(eager, compiled, [inputs], gradients=True)


def right_answer(
    eager: Callable[..., Any], answer: Any, *inputs: Any, **kwargs: Any
) -> bool:
    """Return whether *answer* is about as near to float64 as what *eager* returns."""
    found = differences(eager, lambda *_, **__: answer, [(inputs, kwargs)])
    return not any(one.place.startswith("output") for one in found)


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
    """Return whether *ours* is about as near to *exact* as *usual* is.

    It may be off by four roundings as well.  Anything but a tensor must be the same.
    """
    if not (isinstance(usual, torch.Tensor) and isinstance(ours, torch.Tensor)):
        return type(usual) is type(ours) and usual == ours
    roundings = 4 * torch.finfo(ours.dtype).eps if ours.is_floating_point() else 0.0
    share = max(share_of([exact], [usual]), roundings)
    return exact.shape == ours.shape and right(usual, ours, exact, share)
