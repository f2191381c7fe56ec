"""Text made token by token: what each call of a step runs, and is it right?

A *loop* makes the calls: it is given a step, and yields a token for each.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from course.call_strips import EAGER, Calls
from course.models import llama_of, same_weights
from course.words import unlogged
from helpers import session
from helpers.capture import Watch
from helpers.plots import COLOURS, QUIET, Picture, styled
from helpers.text import Table, mark

Loop = Callable[[Callable[..., Any]], Iterable[int]]


# ------------------------------------------------------- what each call ran


class Lane(Calls):
    """The calls of a step, and which of them compiled."""

    @property
    def versions(self) -> int:
        """How many versions were compiled."""
        return len(self.graphs)

    @property
    def compiled_at(self) -> list[int]:
        """The calls that compiled, counted from 0."""
        return [call for call, made in enumerate(self.made) if made]


def lane(step: Any, loop: Loop, **options: Any) -> Lane:
    """Return what each call of *step* ran when *loop* calls it, compiled anew."""
    with session.undisturbed(step), unlogged(logging.DEBUG):
        calls = Lane(step, **options)
        for _ in loop(calls):
            pass
    return calls


def lanes_table(lanes: Mapping[str, Lane]) -> Table:
    """Return the versions that each way made, and its calls in eager."""
    rows = [
        [name, one.versions, one.ran.count(EAGER), len(one.ran)]
        for name, one in lanes.items()
    ]
    return Table.of(["way", "versions", "calls in eager", "calls"], rows)


# ------------------------------------------------------------- the two caches


@styled
def caches_picture(grown: Sequence[int], room: int) -> Picture:
    """Return the rows of a cache that grows, and of one that is filled."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    grows, fixed = figure.subplots(1, 2, sharey=True)
    calls = range(1, len(grown) + 1)
    style = {"width": 0.8, "edgecolor": "white"}
    grows.bar(calls, grown, color=COLOURS[1], hatch="//", **style)
    fixed.bar(calls, [room] * len(grown), color="#DDDDDD", **style)
    fixed.bar(calls, grown, color=COLOURS[0], **style)
    grows.set(title="growing: a new tensor for each call", ylabel="rows")
    fixed.set(title="static: one tensor (grey), filled (blue)")
    for axes in (grows, fixed):
        axes.set_xlabel("call")
        axes.set_xticks([1, *range(4, len(grown) + 1, 4)])
    return Picture(
        figure,
        f"Rows of the cache in {len(grown)} calls. Growing: {grown[0]}, then "
        f"one more in each call, up to {grown[-1]}. Static: always {room}, of "
        f"which the same number is filled.",
    )


# ------------------------------------------------------------ are they right?


@dataclass(frozen=True)
class Judged:
    """Tokens against float64: which are not the best, and which nearly tie."""

    wrong: int
    tied: int

    def __str__(self) -> str:
        return f"wrong: {self.wrong}, near ties: {self.tied}"


def judge(
    tokens: Sequence[int],
    prompt: torch.Tensor,
    logits: Callable[[torch.Tensor, torch.dtype], torch.Tensor],
) -> Judged:
    """Judge greedy *tokens* by the logits that float64 gives for their text.

    *logits* returns a row for each token of a text, in a dtype, without a
    cache.  A token is right where its exact logit is the largest, or less
    than four errors of eager float32 below it: there, rounding decides.
    """
    made = torch.tensor(tokens, device=prompt.device)
    text = torch.cat([prompt, made])[:-1]
    exact, usual = (
        logits(text, dtype)[len(prompt) - 1 :].double()
        for dtype in (torch.float64, torch.float32)
    )
    slack = 4 * (usual - exact).abs().max()
    slack += 4 * torch.finfo(torch.float32).eps * exact.abs().max()
    best = exact.topk(2, dim=1).values
    wrong = best[:, :1] - exact.gather(1, made[:, None]) > slack
    tied = best[:, 0] - best[:, 1] <= slack
    return Judged(int(wrong.sum()), int(tied.sum()))


# -------------------------------------------------------------------- a Llama


def llama(device: str) -> Any:
    """Return a Llama with two layers and random weights, in eval mode."""
    with same_weights():
        return llama_of(layers=2).to(device).eval().requires_grad_(False)


def compiles_of(model: Any, lengths: Iterable[int], **asked: Any) -> tuple[int, ...]:
    """Return the compiles of model.generate for prompts of these lengths.

    generate compiles on a CPU only with a flag that is private, for tests.
    """
    from transformers import CompileConfig

    config = CompileConfig(backend="eager", mode=None)
    config._compile_all_devices = True
    torch.compiler.reset()
    model._previous_max_cache_length = -1  # as in a new process
    compiles = []
    for length in lengths:
        prompt = torch.arange(1, length + 1, device=model.device)[None]
        with Watch() as watch:
            model.generate(prompt, compile_config=config, **asked)
        compiles.append(watch.compiles)
    return tuple(compiles)


@dataclass(frozen=True)
class Run:
    """A generation: its tokens, and for each call compiles and seconds."""

    tokens: list[int]
    compiles: tuple[int, ...]
    seconds: tuple[float, ...]
    reasons: tuple[str, ...]


def run(steps: Iterable[int]) -> Run:
    """Make the tokens of *steps*, and note what each cost."""
    tokens, compiles, seconds, reasons = [], [], [], []
    steps = iter(steps)
    with unlogged(logging.DEBUG):
        while True:
            with Watch() as watch:
                began = time.perf_counter()
                token = next(steps, None)
                took = time.perf_counter() - began
            if token is None:
                break
            tokens.append(token)
            compiles.append(watch.compiles)
            seconds.append(took)
            reasons += watch.reasons
    return Run(tokens, tuple(compiles), tuple(seconds), tuple(reasons))


@styled
def seconds_picture(runs: Mapping[str, Run]) -> Picture:
    """Return the seconds of each call, with those that compiled marked."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    words = []
    for axes, (name, one) in zip(panels, runs.items(), strict=True):
        calls = range(1, len(one.seconds) + 1)
        axes.plot(calls, one.seconds, color=QUIET, lw=1)
        for compiled, shape in ((False, "o"), (True, "s")):
            those = [n for n in calls if bool(one.compiles[n - 1]) == compiled]
            at = [one.seconds[n - 1] for n in those]
            axes.plot(those, at, shape, color=COLOURS[compiled])
        axes.set(yscale="log", title=name, xlabel="call")
        middle = sorted(one.seconds)[len(one.seconds) // 2]
        where = [n for n in calls if one.compiles[n - 1]]
        words.append(
            f"{name}: compiles in calls {', '.join(map(str, where))}, "
            f"at most {mark(f'{max(one.seconds):.2g} s')}, "
            f"median {mark(f'{middle:.2g} s')}."
        )
    panels[0].set_ylabel("seconds (log)")
    handles = [
        axes.plot([], [], shape, color=COLOURS[n])[0]
        for n, shape in ((1, "s"), (0, "o"))
    ]
    names = ("compiles", "does not")
    figure.legend(handles, names, loc="outside lower left", ncols=2)
    return Picture(figure, "Seconds of each call. " + " ".join(words))
