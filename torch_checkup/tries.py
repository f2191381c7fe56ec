"""The part ``next``: what to try next, each tried and held against the present.

Breaks and versions are counted, and come before seconds; of seconds there is a ratio
with its interval, or "cannot tell".  What does not give eager's answers helps nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import Any

import torch

from . import breaks, cures
from .checkups import Part
from .cures import Cure
from .helpers import stats, text
from .helpers._torch import needed_for
from .helpers.benchmark import Comparison
from .helpers.capture import recompiles
from .helpers.errors import one_line
from .helpers.session import compile_apart, restored, undisturbed
from .helpers.tensors import clone, tensors
from .helpers.text import Table, mark
from .patient import Call, Patient, race

with needed_for("first calls without a cache"):
    from torch._dynamo.pgo import reset_code_state
    from torch._inductor import config as inductor_config
    from torch._inductor.utils import fresh_cache

KINDS = ("breaks", "versions", "first call", "each call")  # the first weigh most
_WORTH = 1.05
"""What is faster by less may be slower in another process, where memory lands anew."""
_ANSWERS = {True: "agree", False: "DIFFER", None: "not decided"}
# As an option of torch.compile it is accepted, and freezes nothing.
_FREEZING = "torch._inductor.config.freezing = True, before torch.compile(model)"
_PATIENCE = 20.0  # seconds after which two first calls of each side must do


@dataclass(frozen=True)
class Try:
    """A line to write, and what it does.

    *kind* is one of `KINDS`.  *gain* is how many breaks or versions are saved, or by
    how much the ratio's interval is beyond what is worth it; it helps if above 0.
    *agrees* says whether the answers are eager's, None where that was not decided.
    """

    line: str
    kind: str
    effect: str
    gain: float
    agrees: bool | None
    costs: str = ""

    @property
    def helps(self) -> bool:
        """Whether it may be advised."""
        return self.gain > 0 and self.agrees is not False


def next_steps(p: Patient) -> Part:
    """What to try next: all of it is tried, and held against the present state."""
    found = tried(p)
    rows = [(t.line, t.effect, _ANSWERS[t.agrees], t.costs) for t in found]
    table = str(Table.of(["tried", "effect", "answers", "costs"], rows))
    helps = [t for t in found if t.helps]
    # Of its own settings alone: other parts may have advice.
    says = [f"{t.line}: {t.effect}" for t in helps] or ["no setting tried here helps"]
    advice = tuple(
        f"{said} ({t.costs})" if t.costs else said
        for said, t in zip(says, helps, strict=False)
    )
    verdict = "look" if helps else "good"
    return Part("next", verdict, says[0], {}, (table,), advice)


def tried(p: Patient) -> list[Try]:
    """Return all that was tried: first what helps, and of that what weighs most.

    When half of the part's time is spent, it begins no other.
    """
    found, begin = list[Try](), time.monotonic()
    with torch.set_grad_enabled(p.gradients):
        torch.compile(lambda x: x + 1)(torch.ones(2))  # its first steps cost nobody
        for one in chain(_mended_breaks(p), _dynamic_sizes(p), _timed(p)):
            found.append(one)
            if time.monotonic() - begin > p.order["timeout"] / 2:
                found.append(Try("the rest", KINDS[-1], "not tried: timeout=", 0, None))
                break
    return sorted(found, key=lambda t: (not t.helps, KINDS.index(t.kind), -t.gain))


def _attempt(
    kind: str, work: Callable[..., Try | None], line: str, *more: Any
) -> Iterator[Try]:
    """Yield what *work* finds of a *line*, or that it failed."""
    try:
        done = work(line, *more)
    except Exception as error:
        done = Try(line, kind, f"fails: {one_line(error):.100}", 0, None)
    if done:
        yield done


def _compiling(p: Patient, **options: Any) -> Callable[[], Callable[..., Any]]:
    """Return what compiles the model, as where no sizes were seen before."""

    def compiling() -> Callable[..., Any]:
        reset_code_state()
        return compile_apart(p.fn, **options)

    return compiling


def _agreement(
    p: Patient,
    compiling: Callable[[], Callable[..., Any]],
    calls: list[Call],
    cold: bool = False,
) -> tuple[bool | None, float, Callable[..., Any]]:
    """Return whether all answers are eager's, seconds of the first call, and its code.

    *compiling* compiles the model; where it draws random numbers, once more, and the
    first call alone is judged: each judgement would compile for its sizes again.  With
    *cold*, the first call finds an empty cache; all else finds what the check-up built.
    """
    compiled, seconds = compiling(), []
    cache = fresh_cache() if cold else nullcontext()
    for inputs, kwargs in map(clone, calls):
        begin = time.perf_counter()
        with cache, restored(p.fn):
            p.run(compiled)(*inputs, **kwargs)
        seconds.append(time.perf_counter() - begin)
        cache = nullcontext()
    judged = calls[:1] if p.draws else calls
    agreed = [p.answers(compiled, call, compiling).matches for call in judged]
    agrees = False if False in agreed else None if None in agreed else True
    return agrees, seconds[0], compiled


# ------------------------------------------------------- breaks, and versions: counted


def _mended_breaks(p: Patient) -> Iterator[Try]:
    """Yield the settings with which Dynamo captures what it stops at now."""

    def judged(line: str, one: breaks.Mended) -> Try:
        with torch._dynamo.config.patch(one.cure.settings):
            agrees, *_ = _agreement(p, _compiling(p), p.calls[:1])
        return Try(line, "breaks", one.effect, one.saved, agrees, one.cure.costs)

    for one in breaks.mended(p):
        yield from _attempt("breaks", judged, one.cure.line, one)


def _dynamic_sizes(p: Patient) -> Iterator[Try]:
    """Yield what makes fewer versions of calls whose sizes differ."""
    marks = [*cures.marked(p)]
    if not marks or (now := recompiles(p.fn, p.calls).total) < 2:
        return

    def counted(line: str, cure: Cure) -> Try:
        calls = cure.calls(p.calls)
        then = recompiles(p.fn, calls, **cure.options).total
        agrees, first, _ = _agreement(p, _compiling(p, **cure.options), calls, True)
        effect = f"{text.count(now, 'version')}, then {then}"
        costs = f"compiles for {mark(text.seconds(first))}"
        return Try(line, "versions", effect, now - then, agrees, costs)

    found = []
    for cure in (*marks, *cures.dynamic()):
        if not any(one.helps and one.gain == now - 1 for one in found):
            found += _attempt("versions", counted, cure.line, cure)
    yield from found


# -------------------------------------------------------------------- seconds: timed


def _timed(p: Patient) -> Iterator[Try]:
    """Yield what is raced against the model as it is compiled now."""
    try:
        *_, now = _agreement(p, _compiling(p), p.calls)  # it stays so through all races
    except Exception as error:
        effect = f"not raced, as it fails now: {one_line(error)}"
        yield Try("other options", "each call", effect, 0, None)
        return
    yield from _options(p, now)
    yield from _by_blocks(p, now)


def _options(p: Patient, now: Callable[..., Any]) -> Iterator[Try]:
    """Yield what each call takes with other options of torch.compile."""
    if any(tensor.is_cuda for tensor in tensors(p.calls)):
        modes = "reduce-overhead", "max-autotune"
    else:  # there it has kernels of its own for products with weights that stay
        modes = () if p.train else ("max-autotune-no-cudagraphs",)
    ways: dict[str, dict[str, Any]] = {f'mode="{m}"': {"mode": m} for m in modes}
    if cures.varying(p):
        ways["dynamic=False"] = {"dynamic": False}

    def raced(line: str, options: dict[str, Any]) -> Try:
        agrees, first, then = _agreement(p, _compiling(p, **options), p.calls, True)
        result = _race(p, now, then)
        gain = result.interval[0] - _WORTH
        costs = f"compiles for {mark(text.seconds(first))}"
        if "dynamic" in options:
            count = recompiles(p.fn, p.calls, **options).total
            costs += f", {text.count(count, 'version')}"
        return Try(line, "each call", mark(result.ratio()), gain, agrees, costs)

    def frozen(line: str) -> Try:
        with inductor_config.patch(freezing=True):
            one = raced(line, {})
        return replace(one, costs=f"{one.costs}, no gradients: under torch.no_grad()")

    for words, options in ways.items():
        line = f"torch.compile(model, {words})"
        yield from _attempt("each call", raced, line, options)
    if p.module and not p.gradients:
        yield from _attempt("each call", frozen, _FREEZING)


def _race(p: Patient, now: Callable[..., Any], then: Callable[..., Any]) -> Comparison:
    """Race *then* against the present state, over all calls in turn."""

    def all_calls(model: Callable[..., Any]) -> Callable[..., Any]:
        run = p.run(model)
        return lambda *calls: [run(*inputs, **kwargs) for inputs, kwargs in calls]

    sides, names = (all_calls(now), all_calls(then)), ("now", "then")
    how = {"budget": p.order["budget"] / 4, "names": names, "same_answer": False}
    return race(sides, p.calls, **how)


def _by_blocks(p: Patient, now: Callable[..., Any]) -> Iterator[Try]:
    """Yield the first call when each repeated block is compiled in place of all."""

    def by_blocks(line: str) -> Try | None:
        if p.made_again() is p.fn:  # made once only: its blocks are the present's too
            return None

        def compiling() -> Callable[..., Any]:
            model, drawn = p.made_again(), torch._inductor.config.fallback_random
            for block in model.get_submodule(name):
                block.compile(options={"fallback_random": drawn})
            return model

        agrees, _, model = _agreement(p, compiling, p.calls)
        costs = f"each call {mark(_race(p, now, model).ratio())}"
        whole, parts = _first_calls(p, model)
        ratios = [a / b for a, b in zip(whole, parts, strict=True)]
        confidence = 1 - 2.0 ** (1 - len(ratios))  # that lowest to highest has
        between = stats.Interval(min(ratios), max(ratios), confidence)
        effect = (
            f"first call {stats.verdict(between)}: {text.seconds(median(whole))}, then "
            f"{text.seconds(median(parts))}; {between.low:.3g} to {between.high:.3g} "
            f"times as fast in {len(ratios)} rounds"
        )
        gain = between.low - _WORTH
        return Try(line, "first call", mark(effect), gain, agrees, costs)

    if name := _blocks(p.module):
        line = f"for block in model.{name}: block.compile()"
        yield from _attempt("first call", by_blocks, line)


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


def _first_calls(p: Patient, model: Callable[..., Any]) -> tuple[list[float], ...]:
    """Return seconds of first calls of the present state and of *model*, in turn.

    Nothing was compiled or kept before any of them.
    """
    seconds: tuple[list[float], ...] = [], []
    begin = time.monotonic()
    for turn in range(3):
        if turn > 1 and time.monotonic() - begin > _PATIENCE:
            break
        for side, each in enumerate((compile_apart(p.fn), model)):
            torch.compiler.reset()
            inputs, kwargs = clone(p.calls[0])
            run = p.run(each)
            with fresh_cache(), undisturbed(run):
                before = time.perf_counter()
                run(*inputs, **kwargs)
                seconds[side].append(time.perf_counter() - before)
    return seconds
