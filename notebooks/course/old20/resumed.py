"""Runs that stop and go on, beside one that did not stop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch.optim.lr_scheduler import LinearLR, LRScheduler

from course.values import as_near
from helpers import device
from helpers.plots import CEILING, COLOURS, QUIET, Picture, styled

LOOKS = (
    {"color": COLOURS[0], "ls": "-", "lw": 6, "alpha": 0.35},
    {"color": COLOURS[0], "ls": "", "marker": "o"},
    {"color": COLOURS[1], "ls": "--", "marker": "s"},
    {"color": CEILING, "ls": ":", "marker": "^"},
    {"color": QUIET, "ls": "-.", "marker": "v"},
)


Run = tuple[torch.nn.Module, Callable[..., Any], torch.optim.Optimizer, LRScheduler]


def fresh(make: Callable[..., torch.nn.Module], *options: Any) -> Run:
    """Return a model, the same compiled, its optimizer and its schedule, all new."""
    torch.manual_seed(0)
    model = make(*options).to(device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = LinearLR(optimizer, start_factor=0.1, total_iters=20)
    return model, torch.compile(model), optimizer, schedule


def train(
    model: torch.nn.Module,
    call: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    schedule: LRScheduler,
    x: torch.Tensor,
    steps: int,
) -> list[float]:
    """Train so many steps, by *call*, and return their losses."""
    losses = []
    target = x[:, :16].sin()
    for _ in range(steps):
        loss = (call(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def continued_right(make: Callable[[], torch.nn.Module], x: torch.Tensor) -> bool:
    """Return whether a compiled run may go on in eager: float64 judges.

    Four steps are compiled; then the run goes on for four more from its file,
    in eager and float64, in eager, and compiled.
    """
    torch.compiler.reset()
    first = fresh(make)
    train(*first, x, steps=4)
    weights, moments = first[0].state_dict(), first[2].state_dict()

    def goes_on(dtype: torch.dtype, compiled: bool) -> torch.Tensor:
        model, call, optimizer, schedule = fresh(make)
        model.to(dtype).load_state_dict(weights)
        optimizer.load_state_dict(copy.deepcopy(moments))
        call = call if compiled else model
        losses = train(model, call, optimizer, schedule, x.to(dtype), steps=4)
        return torch.tensor(losses, dtype=torch.float64)

    double = goes_on(torch.float64, compiled=False)
    eager, compiled = (goes_on(torch.float32, c) for c in (False, True))
    return as_near(double, eager.float(), compiled.float())


@styled
def resumed_picture(runs: Mapping[str, Sequence[float]]) -> Picture:
    """Return a picture of the losses of runs that all end at the same step.

    The first never stopped; the others are as much shorter as they left out.
    """
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    axes = figure.subplots()
    [first, *_] = runs.values()
    words = []
    for (name, losses), look in zip(runs.items(), LOOKS, strict=False):
        start = len(first) - len(losses)
        axes.plot(range(start, len(first)), losses, label=name, **look)
        off = sum(a != b for a, b in zip(first[start:], losses, strict=True))
        words.append(f"{name}: {off} of {len(losses)} losses differ")
    seen = range(start - 3, len(first))
    shown = [one for run in runs.values() for one in run[-len(seen) :]]
    low, high = min(shown), max(shown)
    room = 0.1 * (high - low)
    axes.set(xlim=(seen[0], seen[-1] + 0.3), ylim=(low - room, high + room))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.axvline(start - 0.5, color="black", ls=":")
    axes.text(start - 0.4, high, "the file", va="top")
    axes.set(xlabel="step", ylabel="loss")
    axes.set_title("a run resumed, with all it needs or without")
    axes.legend()
    return Picture(figure, f"Losses over the steps. {'; '.join(words[1:])}.")
