"""Training the reader on Alice, and how far each run is from float64."""

from __future__ import annotations

import logging
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, Dataset

from course.alice import ALPHABET, TEXT, Reader, pages
from helpers import device
from helpers.plots import COLOURS, Picture, styled
from helpers.text import Table, mark

LENGTH = 49
LINES = ("-", "--", ":")
INK = (*COLOURS, "#444444")
KINDS = {
    "SGD": partial(torch.optim.SGD, lr=0.01, momentum=0.9),
    "AdamW": partial(torch.optim.AdamW, lr=0.01),
}
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def reader(dtype: torch.dtype = torch.float32) -> Reader:
    """Return a small reader, always with the same weights."""
    torch.manual_seed(0)
    return Reader(width=32, heads=2, blocks=1).to(device(), dtype)


def batches(steps: int, rows: int = 16) -> Iterator[torch.Tensor]:
    """Yield so many batches of the book, always in the same order."""
    book = pages(600, LENGTH).to(device())
    order = torch.Generator().manual_seed(0)
    for _ in range(steps):
        yield book[torch.randperm(len(book), generator=order)[:rows]]


# --- how far from float64 ---


def farthest(losses: Sequence[float], exact: Sequence[float]) -> list[float]:
    """Return the largest distance to *exact* so far, for each step."""
    found, most = [], 0.0
    for ours, right in zip(losses, exact, strict=True):
        off = abs(ours - right)
        most = most if math.isnan(most) or off <= most else off  # a NaN stays
        found.append(most)
    return found


def as_near(
    exact: Sequence[float], usual: Sequence[float], ours: Sequence[float]
) -> bool:
    """Return whether *ours* stays as near to *exact* as *usual*, about.

    Four times as far is allowed, and four roundings of a loss in float32.
    """
    room = torch.finfo(torch.float32).eps * max(map(abs, exact))
    both = zip(farthest(ours, exact), farthest(usual, exact), strict=True)
    return all(mine <= 4 * (theirs + room) for mine, theirs in both)


@styled
def distance_picture(
    runs: dict[str, Sequence[float]], exact: Sequence[float]
) -> Picture:
    """Return a picture of the largest distance so far, one curve a run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    axes = figure.subplots()
    words = []
    for number, (name, losses) in enumerate(runs.items()):
        off = farthest(losses, exact)
        look = {"ls": LINES[number], "color": INK[number], "lw": 2.5}
        axes.step(range(1, len(off) + 1), off, where="post", label=name, **look)
        words.append(f"{name} {mark(f'{off[-1]:.1e}')}")
    axes.set(yscale="log", xlabel="step", xlim=(1, 1.02 * len(exact)))
    axes.set(title="largest distance of a loss to float64's, so far")
    figure.legend(loc="outside upper left", ncols=len(runs))
    alt = f"Largest distance to float64 after {len(exact)} steps: "
    return Picture(figure, f"{alt}{'; '.join(words)}.")


# --- a small layer, trained with any optimizer ---


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out one line: that Dynamo drops the profiler's marks of a step."""
    log = logging.getLogger("torch._dynamo.variables.ctx_manager")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def weights_over(
    optimizer: Callable[..., Any],
    wrap: Wrap = lambda step: step,
    schedule: Callable[[Any], Any] | None = None,
    dtype: torch.dtype = torch.float32,
    steps: int = 20,
) -> list[torch.Tensor]:
    """Return a layer's weights after each step; *wrap* may compile it."""
    torch.compiler.reset()
    layer, x = _layer(dtype)
    trained = optimizer(layer.parameters())
    plan = schedule(trained) if schedule else None
    step, seen = wrap(trained.step), []
    with quiet():
        for _ in range(steps):
            layer(x).square().sum().backward()
            step()
            trained.zero_grad()
            if plan:
                plan.step()
            seen.append(layer.weight.detach().double().clone())
    return seen


def step_distances(ways: dict[str, Wrap]) -> dict[tuple[str, str], float]:
    """Return how far weights get from float64, for each optimizer and way."""
    found = {}
    for name, kind in KINDS.items():
        right = weights_over(kind, dtype=torch.float64)
        for way, wrap in ways.items():
            found[name, way] = off(weights_over(kind, wrap), right)
    return found


def distance_table(distance: dict[tuple[str, str], float]) -> Table:
    """Return a table of what `step_distances` found."""
    ways = [way for name, way in distance if name == "SGD"]
    rows = [
        (name, *(mark(f"{distance[name, way]:.1e}") for way in ways)) for name in KINDS
    ]
    return Table.of(("weights after 20 steps", *ways), rows)


def off(ours: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    """Return the largest distance between two lists of weights."""
    pairs = zip(ours, exact, strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def graphs_by_step(
    optimizer: Callable[..., Any],
    lr: float | torch.Tensor,
    schedule: Callable[[Any], Any],
    steps: int = 12,
    backend: str = "aot_eager",
) -> list[int]:
    """Return how many graphs each call of a compiled step captures."""
    torch.compiler.reset()
    layer, x = _layer(torch.float32)
    rate = lr.clone() if isinstance(lr, torch.Tensor) else lr
    trained = optimizer(layer.parameters(), lr=rate)
    plan, found = schedule(trained), []
    step = torch.compile(trained.step, backend=backend)
    with quiet():
        for _ in range(steps):
            layer(x).square().sum().backward()
            before = counters["stats"]["unique_graphs"]
            step()
            found.append(counters["stats"]["unique_graphs"] - before)
            trained.zero_grad()
            plan.step()
    return found


class ByHand:
    """A schedule as loops write it: a new rate, or the tensor that is there, filled."""

    def __init__(self, optimizer: torch.optim.Optimizer, fill: bool) -> None:
        self.groups, self.fill, self.steps = optimizer.param_groups, fill, 1

    def step(self) -> None:
        """Set the next rate, in each group."""
        self.steps += 1
        for group in self.groups:
            if self.fill:
                group["lr"].fill_(0.01 / self.steps)
            else:
                group["lr"] = 0.01 / self.steps


def _layer(dtype: torch.dtype) -> tuple[torch.nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 4).to(device(), dtype)
    x = torch.linspace(-1, 1, 24).view(3, 8)
    return layer, x.to(device(), dtype)


def two_branches(set_to_none: bool, wrap: Wrap) -> tuple[list[int], float]:
    """Train two layers by turns; return the graphs of each step, and a weight.

    The weight is of the first layer, after three steps in which it had a turn.
    """
    torch.compiler.reset()
    torch.manual_seed(0)
    layers = torch.nn.ModuleList(torch.nn.Linear(8, 4) for _ in range(2))
    layers.to(device())
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    step, found = wrap(optimizer.step), []
    x = torch.ones(3, 8, device=device())
    with quiet():
        for turn in range(6):
            layers[turn % 2](x).sum().backward()
            before = counters["stats"]["unique_graphs"]
            step()
            found.append(counters["stats"]["unique_graphs"] - before)
            optimizer.zero_grad(set_to_none=set_to_none)
    return found, float(layers[0].weight.detach()[0, 0])


# --- accumulation, and a loader that works ---


def gradient_after(
    accumulate: Callable[..., None],
    loss_of: Callable[..., Any],
    parts: Sequence[torch.Tensor],
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return all gradients of a fresh reader after *accumulate*."""
    model = reader(dtype)
    accumulate(loss_of, model, parts)
    gradients = [weight.grad.flatten() for weight in model.parameters()]
    return torch.cat(gradients).double()


def mean_of_means(
    loss_of: Callable[..., Any], model: Reader, parts: Sequence[torch.Tensor]
) -> None:
    """Accumulate as it is often written, wrongly where a part is short."""
    for part in parts:
        loss = loss_of(model, part) / part[:, 1:].numel()
        (loss / len(parts)).backward()


def relative(ours: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the distance of two gradients, as a share of the exact one."""
    return float((ours - exact).norm() / exact.norm())


class Passages(Dataset):
    """Passages, cleaned and encoded whenever one is asked for."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, number: int) -> torch.Tensor:
        page = TEXT[3000 * number : 3000 * number + 3000].lower()
        page = " ".join(re.sub(r"[^a-z ,.!?]", " ", page).split())
        letters = [ALPHABET.index(letter) for letter in page]
        return torch.tensor(letters[:LENGTH], device=device())


def passages() -> DataLoader:
    """Return a loader of one batch."""
    return DataLoader(Passages(), batch_size=16)


# --- the loop to copy, tried ---


@dataclass(frozen=True)
class Tried:
    """A run of the example, and what it left."""

    losses: list[float]
    held: float
    graphs: int
    late: int
    saved: dict[str, torch.Tensor]
    model: Reader


def tried(
    loss_of: Callable[..., Any],
    windows: list[list[torch.Tensor]],
    held_out: torch.Tensor,
    wrap: Wrap,
    dtype: torch.dtype = torch.float32,
) -> Tried:
    """Run examples/train.py; *late* graphs come after the first window."""
    from examples.train import train

    torch.compiler.reset()
    model, before = reader(dtype), counters["stats"]["unique_graphs"]
    after_first: list[int] = []

    class Watched(list):
        def __iter__(self) -> Iterator[list[torch.Tensor]]:
            for number, parts in enumerate(super().__iter__()):
                if number == 1:
                    after_first.append(counters["stats"]["unique_graphs"])
                yield parts

    with tempfile.TemporaryDirectory() as folder, quiet():
        path = f"{folder}/model.pt"
        losses, held = train(model, loss_of, Watched(windows), held_out, path, wrap)
        saved = torch.load(path, weights_only=True)
    now = counters["stats"]["unique_graphs"]
    return Tried(losses, held, now - before, now - after_first[0], saved, model)
