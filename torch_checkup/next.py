"""The part ``next``: what to try next, each raced against the present.

Of seconds there is a ratio with its interval, or "cannot tell".  What captures more,
or compiles fewer versions, is advice of the parts that count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from .helpers import text
from .helpers._torch import needed_for
from .helpers.benchmark import Comparison
from .helpers.capture import Watch
from .helpers.errors import CompiledRaises, one_line
from .helpers.session import compile_apart, restored
from .helpers.tensors import tensors
from .helpers.text import Table, mark
from .model import Model, TooFewCalls, race
from .report import Part

with needed_for("first calls without a cache"):
    from torch._dynamo.pgo import reset_code_state
    from torch._inductor import config as inductor_config
    from torch._inductor.utils import fresh_cache

_WORTH = 1.05
"""A smaller gain may be a loss in another process, with other memory addresses."""
_ANSWERS = {True: "agree", False: "DIFFER", None: "not known"}
# As an option of torch.compile it is accepted, and freezes nothing.
_FREEZING = "torch._inductor.config.freezing = True, before torch.compile(model)"
_WORTH_ONCE = 1.3  # of first calls, which are timed once


@dataclass(frozen=True)
class Outcome:
    """A line to write, and its effect.

    *gain* is by how much the ratio is above what is worth it: of an interval, its lower
    end; where its upper end may be worth it, that is not *decided*.  *agrees* says
    whether the answers are eager's, None where that is undecided, or nobody would ask.
    """

    line: str
    effect: str
    gain: float
    agrees: bool | None
    costs: str = ""
    decided: bool = True

    @property
    def helps(self) -> bool:
        """Whether it may be advised."""
        return self.gain > 0 and self.agrees is not False


def part(m: Model) -> Part:
    """What to try next: all of it is tried, and compared with the present state."""
    found = all_tried(m)
    rows = [(t.line, t.effect, _ANSWERS[t.agrees], t.costs) for t in found]
    table = Table.of(["tried", "effect", "answers", "costs"], rows)
    helps = [t for t in found if t.helps]
    # Of its own settings alone: other parts may have advice.
    says = [f"{t.line}: {t.effect}" for t in helps] or ["no option tried helps"]
    is_open = not all(t.decided for t in found)
    if is_open and not helps:
        says = ["whether an option helps is open: give more --budget, --timeout"]
    advice = tuple(
        f"{said} ({t.costs})" if t.costs else said
        for said, t in zip(says, helps, strict=False)
    )
    verdict = "look" if helps else "cannot tell" if is_open else "good"
    return Part("next", verdict, says[0], {}, (table,), advice)


def all_tried(m: Model) -> list[Outcome]:
    """Return all that was tried in half of the part's time, what helps most first."""
    found, begin = list[Outcome](), time.monotonic()
    with torch.set_grad_enabled(m.gradients):
        torch.compile(lambda x: x + 1)(torch.ones(2))  # the first one costs more
        for one in _timed(m):
            found.append(one)
            if time.monotonic() - begin > m.order["timeout"] / 2:
                rest = "the rest", "not tried: --timeout"
                found.append(Outcome(*rest, 0, None, decided=False))
                break
    return sorted(found, key=lambda t: (not t.helps, -t.gain))


def _attempt(work: Callable[..., Outcome], line: str, *more: Any) -> Outcome:
    try:
        return work(line, *more)
    except TooFewCalls:
        raise  # no option can be raced
    except Exception as error:
        return Outcome(line, f"fails: {one_line(error):.100}", 0, None)


def _compiling(m: Model, **how: Any) -> Callable[[], Callable[..., Any]]:
    """Return a function that compiles the model, as if it had seen no sizes."""

    def compiling() -> Callable[..., Any]:
        reset_code_state()
        return compile_apart(m.program, **m.owners(how))

    return compiling


def _called(
    m: Model,
    compiling: Callable[[], Callable[..., Any]],
    cold: bool = False,
    most: int | None = None,
) -> tuple[float, Callable[..., Any]]:
    """Return the seconds of the first call, and the code after all or *most* calls.

    With *cold*, the first call finds an empty cache, and not what the check-up built.
    """
    compiled, seconds = compiling(), []
    cache = fresh_cache() if cold else nullcontext()
    for inputs, kwargs in m.calls[:most]:
        begin = time.perf_counter()
        with cache, restored(m.fn, compiled):  # which may hold a count of its own
            m.run(compiled)(*inputs, **kwargs)
        seconds.append(time.perf_counter() - begin)
        cache = nullcontext()
    return seconds[0], compiled


def _timed(m: Model) -> Iterator[Outcome]:
    try:
        _, now = _called(m, _compiling(m))  # it stays so through all races
    except Exception as error:
        why = f"no option is raced, as it fails now: {one_line(error)}"
        raise CompiledRaises(why) from error
    yield from _modes(m, now)
    if not m.in_pieces:
        yield from _by_blocks(m, now)


def _modes(m: Model, now: Callable[..., Any]) -> Iterator[Outcome]:
    """Yield what each call takes with other options of torch.compile."""
    if any(tensor.is_cuda for tensor in tensors(m.calls)):
        modes = "reduce-overhead", "max-autotune"
    else:  # it has special kernels for products with constant weights
        modes = () if m.train else ("max-autotune-no-cudagraphs",)

    def raced(line: str, how: dict[str, Any], more: str = "") -> Outcome:
        compiling = _compiling(m, **how)
        with Watch() as watch:
            _, then = _called(m, compiling)
        result = _race(m, now, then)
        least, most = (end - _WORTH for end in result.interval)
        agrees = m.judged(then, m.calls, compiling).matches if most > 0 else None
        costs = text.count(watch.compiles, "version") + more
        decided = least > 0 or most <= 0 or agrees is False
        one = Outcome(line, mark(result.ratio()), least, agrees, costs, decided)
        if one.helps:  # only then somebody waits for it
            first, _ = _called(m, compiling, cold=True, most=1)
            costs = f"compiles for {mark(text.seconds(first))}{more}"
        return replace(one, costs=costs)

    def frozen(line: str) -> Outcome:
        with inductor_config.patch(freezing=True):
            return raced(line, {}, ", no gradients: under torch.no_grad()")

    for mode in modes:
        yield _attempt(raced, f'torch.compile(model, mode="{mode}")', {"mode": mode})
    if m.module and not m.gradients:
        yield _attempt(frozen, _FREEZING)


def _race(m: Model, now: Callable[..., Any], then: Callable[..., Any]) -> Comparison:
    """Race *then* against the present state, over all calls in turn."""

    def all_calls(model: Callable[..., Any]) -> Callable[..., Any]:
        run = m.run(model)
        return lambda *calls: [run(*inputs, **kwargs) for inputs, kwargs in calls]

    sides, names = (all_calls(now), all_calls(then)), ("now", "then")
    how = {"budget": m.order["budget"] / 4, "names": names, "same_answer": False}
    return race(m, sides, m.calls, **how)


def _by_blocks(m: Model, now: Callable[..., Any]) -> Iterator[Outcome]:
    """Yield the first call when each repeated block is compiled in place of all."""

    def by_blocks(line: str) -> Outcome:
        def compiling() -> Callable[..., Any]:
            model, drawn = m.made_again(), torch._inductor.config.fallback_random
            for block in model.get_submodule(name):
                block.compile(options={"fallback_random": drawn})
            return model

        parts, model = _called(m, compiling, cold=True)
        whole, _ = _called(m, _compiling(m), cold=True, most=1)
        effect = f"first call {text.seconds(whole)}, then {text.seconds(parts)}"
        one = Outcome(line, mark(effect), whole / parts - _WORTH_ONCE, None)
        if one.gain <= 0:
            return one
        agrees = m.judged(model, m.calls, compiling).matches
        costs = f"each call {mark(_race(m, now, model).ratio())}"
        return replace(one, agrees=agrees, costs=costs)

    # Made once only, its blocks are the present's too.
    if (name := _blocks(m.module)) and m.made_again() is not m.fn:
        yield _attempt(by_blocks, f"for block in model.{name}: block.compile()")


def _blocks(module: torch.nn.Module | None) -> str:
    """Return the name of the list whose blocks, all alike, have most weights, or ''."""
    found = {}
    for name, part in module.named_modules() if module else ():
        blocks = list(part.children())
        listed = isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential))
        alike = len(blocks) > 1 and len({type(block) for block in blocks}) == 1
        if name and listed and alike and [*blocks[0].children()]:
            found[name] = sum(weight.numel() for weight in part.parameters())
    return max(found, key=found.get, default="")
