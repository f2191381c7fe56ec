"""A small denoiser, a small UNet, and what a step of diffusion must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from course.call_strips import Calls, first_lines
from course.values import as_near
from course.words import unlogged
from helpers import device

with unlogged():
    from diffusers import UNet2DConditionModel

TIMES = tuple(range(900, 0, -75))


class Unet(torch.nn.Module):
    """A UNet of diffusers, with its text: called with x and t."""

    def __init__(self) -> None:
        super().__init__()
        self.unet = unet()
        self.register_buffer("text", torch.randn(1, 5, 16, device=device()))

    def forward(self, x: torch.Tensor, t: Any) -> torch.Tensor:
        return self.unet(x, t, self.text).sample


def unet() -> Any:
    """Return a UNet of diffusers, 16 channels wide, the same at each call."""
    torch.manual_seed(0)
    model = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(16,),
        down_block_types=("DownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D",),
        mid_block_type=None,
        cross_attention_dim=16,
        attention_head_dim=8,
        norm_num_groups=4,
    )
    return model.eval().requires_grad_(False).to(device())


class Plain(torch.nn.Module):
    """A denoiser of a few lines, whose timestep is a number or a tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.last = torch.nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, t: Any) -> torch.Tensor:
        wave = torch.cos(0.01 * t * torch.arange(1, 9, device=x.device))
        return self.last(torch.tanh(self.first(x) + wave[:, None, None]))


def repeated(model: Any) -> int:
    """Return how many blocks ``compile_repeated_blocks`` compiles."""
    kinds = [type(part).__name__ for part in model.modules()]
    return sum(kind in model._repeated_blocks for kind in kinds)


def picture_of(rows: int = 1, side: int = 8) -> torch.Tensor:
    """Return noise to begin with."""
    torch.manual_seed(0)
    return torch.randn(rows, 4, side, side, device=device())


def right(
    eager: Callable[..., Any],
    found: Sequence[Any],
    calls: Sequence[tuple[Any, ...]],
    inside: torch.nn.Module | None = None,
) -> bool:
    """Return whether each found result is as near to float64 as eager's.

    A function names the module *inside* it, for that has to be float64 too.
    """
    model = inside or eager
    usual = [eager(*call) for call in calls]
    try:
        model.double()
        exact = [eager(*map(_double, call)) for call in calls]
    finally:
        model.float()
    return len(found) == len(calls) and all(map(as_near, exact, usual, found))


def _double(value: Any) -> Any:
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floats else value


def in_a_row(step: Callable[..., Any], x: torch.Tensor, times: Sequence[Any]) -> Any:
    """Return the picture after all steps."""
    for t in times:
        x = step(x, t)
    return x


def steps_of(
    step: Callable[..., Any], x: torch.Tensor, times: Sequence[Any]
) -> tuple[Calls, int, torch.Tensor]:
    """Return what the steps cost, torch's graph breaks, the last picture."""
    from torch._dynamo.utils import counters

    counters.clear()
    run = Calls(step)
    with first_lines(0):
        last = in_a_row(run, x, times)
    return run, sum(counters["graph_break"].values()), last


def served(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
) -> tuple[Calls, list[Any]]:
    """Return what each call of a function compiled apart cost, and gave."""
    run = Calls(function)
    return run, [run(*call) for call in calls]
