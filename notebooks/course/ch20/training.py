"""The reader on Alice, and a run that stops and goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import torch
from torch.optim.lr_scheduler import LinearLR, LRScheduler

from course.alice import Reader, pages
from helpers import device

# Each compile of an optimizer's step says that the profiler's marks are left out.
logging.getLogger("torch._dynamo.variables.ctx_manager").setLevel(logging.ERROR)

Run = tuple[torch.nn.Module, torch.optim.Optimizer, LRScheduler]


def reader(dtype: torch.dtype = torch.float32) -> Reader:
    """Return a small reader, always with the same weights."""
    torch.manual_seed(0)
    return Reader(width=32, heads=2, blocks=1).to(device(), dtype)


def batches(steps: int, rows: int = 16) -> Iterator[torch.Tensor]:
    """Yield so many batches of the book, always in the same order."""
    book = pages(600, 49).to(device())
    order = torch.Generator().manual_seed(0)
    for _ in range(steps):
        yield book[torch.randperm(len(book), generator=order)[:rows]]


def fresh(make: Callable[[], torch.nn.Module]) -> Run:
    """Return a model, its optimizer and its schedule, as in a new process."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model = make().to(device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return model, optimizer, LinearLR(optimizer, start_factor=0.1, total_iters=20)


def go_on(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: LRScheduler,
    x: torch.Tensor,
    steps: int,
) -> list[float]:
    """Compile *model*, train it for so many steps, and return the losses."""
    call, losses = torch.compile(model), []
    target = x[:, :16].sin()
    for _ in range(steps):
        loss = (call(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
