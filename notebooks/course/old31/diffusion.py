"""A small denoiser, a small UNet, and what a step of diffusion must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters

from course.call_strips import Calls, first_lines
from course.models import build
from course.values import right_answer
from helpers import device

TIMES = tuple(range(900, 0, -75))


class Unet(torch.nn.Module):
    """A UNet of diffusers, with its text: called with x and t."""

    def __init__(self) -> None:
        super().__init__()
        _, unet, (call, *_) = build("unet")
        self.unet = unet.requires_grad_(False).to(device())
        self.register_buffer("text", call["encoder_hidden_states"].to(device()))

    def forward(self, x: torch.Tensor, t: Any) -> torch.Tensor:
        return self.unet(x, t, self.text).sample


def pipeline() -> Any:
    """Return a pipeline of diffusers, with a tiny UNet and random weights."""
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    torch.manual_seed(0)
    unet = UNet2DModel(
        sample_size=8,
        block_out_channels=(16, 16),
        norm_num_groups=8,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    made = DDIMPipeline(unet, DDIMScheduler()).to(device())
    made.set_progress_bar_config(disable=True)
    return made


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
    eager: Callable[..., Any], found: Sequence[Any], calls: Sequence[tuple[Any, ...]]
) -> bool:
    """Return whether each found result is as near to float64 as eager's."""
    judged = zip(found, calls, strict=True)
    return all(right_answer(eager, result, *call) for result, call in judged)


def in_a_row(step: Callable[..., Any], x: torch.Tensor, times: Sequence[Any]) -> Any:
    """Return the picture after all steps."""
    for t in times:
        x = step(x, t)
    return x


def steps_of(
    step: Callable[..., Any], x: torch.Tensor, times: Sequence[Any]
) -> tuple[Calls, int, torch.Tensor]:
    """Return what the steps cost, torch's graph breaks, the last picture."""
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
