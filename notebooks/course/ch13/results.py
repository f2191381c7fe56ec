"""What became of a result that was kept while later calls ran, and what calls did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course.ch13.driver import Recorder, Step


def fate(result: torch.Tensor, wanted: torch.Tensor) -> str:
    """Return what somebody gets who uses *result* now.

    "right" and "wrong" hold its values against *wanted*; "raises" is the error of a
    result whose memory was given away.
    """
    try:
        return "right" if torch.allclose(result + 0, wanted) else "wrong"
    except RuntimeError:
        return "raises"


def first_results(
    scale: Callable[[torch.Tensor], torch.Tensor],
    at_the_start: Callable[[], object],
    between: Callable[[], object],
) -> list[str]:
    """Return the fate of the first of two results, in each of four steps."""
    torch.compiler.reset()
    fast, found = torch.compile(scale, backend=Recorder()), []
    for n in range(4):
        at_the_start()
        x = torch.full((4,), float(n))
        first = fast(x)
        between()
        fast(torch.zeros(4))
        found.append(fate(first, scale(x)))
    return found


def did(f: Callable[..., Any], *inputs: Any) -> list[str]:
    """Return what each of four calls of a compiled *f* did."""
    torch.compiler.reset()
    recorder = Recorder()
    fast = torch.compile(f, backend=recorder)
    for _ in range(4):
        fast(*inputs)
    return [step.what for step in recorder.take()]


def six_losses(model: torch.nn.Module, x: torch.Tensor) -> list[Step]:
    """Return what six calls did, each loss held until the next one is there."""
    torch.compiler.reset()
    recorder = Recorder()
    fast = torch.compile(model, backend=recorder)
    for _ in range(6):
        loss = fast(x)
        assert loss.isfinite()
    return recorder.take()


def gradients(
    call: Callable[[torch.Tensor], torch.Tensor],
    model: torch.nn.Module,
    steps: torch.Tensor,
    in_place: bool,
) -> list[torch.Tensor]:
    """Return the weight's gradient after each step, the sum over its batches.

    In place, gradients exist before the first backward, and are set to zero.
    """
    found = []
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter) if in_place else None
    for batches in steps:
        model.zero_grad(set_to_none=not in_place)
        for batch in batches:
            call(batch).backward()
        found.append(model.layer.weight.grad.clone())
    return found
