"""compare(): eager against compiled, timed fairly, or an honest "cannot tell".

First the answers must agree (`helpers.correctness`); then both sides are warmed up;
then they are timed in rounds, one block of each in random order (`helpers.timing`),
until the interval of their ratio (`helpers.stats`) is narrow or the budget is spent.
It never stops because the result looks good.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from . import _torch, correctness, judge, stats, text, timing
from .capture import Watch
from .errors import InputError, UsedUp, one_line
from .outcomes import Outcome, Trial
from .results import Measured, TableResult
from .stats import Interval
from .text import mark
from .timing import Block, Clock, Faults, Plan

_IN_A_ROW = 3
"""Calls of the warm-up from one state: more may use up room in a cache."""
_FEWEST = 6  # rounds for an interval at 95 %
_FIRST_LOOK = 11  # rounds before the interval is first asked whether it is narrow
_ENOUGH = 15  # so many undisturbed rounds that the disturbed ones no longer matter
_PRECISE = 0.004
"""Half the width of an interval, as a share, at which a race ends before its budget."""
_OPEN = 1.05
"""Where rounds were disturbed, by what factor the interval may leave the ratio open."""


@dataclass(frozen=True)
class Round:
    """One block of each side: seconds per call, who went first, undisturbed?

    Of a disturbed one, also how many of these seconds may have been waiting for a core.
    """

    a_s: float
    b_s: float
    a_first: bool
    clean: bool
    a_waited_s: float = 0.0
    b_waited_s: float = 0.0


@dataclass(frozen=True, repr=False)
class Comparison(Measured, TableResult):
    """What ``compare`` found; *a* is eager and *b* compiled unless renamed."""

    names: tuple[str, str]
    speedup: float
    """Median of the paired ratios a/b: above 1, the compiled side is faster."""
    interval: tuple[float, float]
    confidence: float
    verdict: str
    median_s: tuple[float, float]
    cold_start_s: float
    """First call of *b*; compiling is in it unless it had been called before."""
    compiles: int
    """How often the first calls of *b* compiled: 0 if it was warm already."""
    graphs: int
    graph_breaks: int
    page_faults: tuple[int, int] | None
    """Pages per call that the system had to supply: 0 when memory is reused."""
    peak_bytes: tuple[int, int] | None
    matches: bool | None
    max_error: float
    error64: tuple[float, float] | None
    rounds: tuple[Round, ...]
    notes: tuple[str, ...]
    threads: int
    device: str
    interrupted: bool = False
    """Whether Ctrl-C ended it before its budget did."""

    @property
    def calls_to_pay_back(self) -> float:
        """Return after how many calls the first one is paid back; may be inf."""
        return stats.calls_to_pay_back(self.cold_start_s, *self.median_s)

    def sentence(self) -> str:
        """Return the result as one sentence, measured values marked."""
        a, b = self.names
        return f"{b} against {a}: {mark(self.ratio())}"

    def ratio(self) -> str:
        """Return the verdict, the speed-up and its interval, nothing marked.

        Where it cannot tell, no single number stands for the interval.
        """
        low, high = self.interval
        if self.verdict == "cannot tell":
            sure = f"{self.confidence:.0%} interval"
            return f"cannot tell: between {low:.3g}x and {high:.3g}x, {sure}"
        return (
            f"{self.verdict}: {self.speedup:.3g}x, {self.confidence:.0%} interval "
            f"{low:.3g} to {high:.3g}"
        )

    def plot(self) -> Any:
        """Return a picture of both times, and of the speed-up with its interval."""
        from .plots import plot_comparison

        return plot_comparison(self)

    def table(self) -> text.Table:
        """Return the result as a table: facts plain, measured values marked."""
        a, b = self.names
        answers = {True: "agree", False: "DIFFER", None: "not compared"}
        calls = {
            "faster": f"{self.calls_to_pay_back:.0f} calls",
            "cannot tell": "cannot tell",
        }.get(self.verdict, "no number of calls")
        largest = f"{self.max_error:.2g}"
        if self.error64 is not None:
            sides = map("{} {:.2g}".format, self.names, self.error64)
            largest += f" (from float64: {', '.join(sides)})"
        clean = sum(r.clean for r in self.rounds)
        measured = {
            "verdict": self.ratio(),
            f"{a}, median call": text.seconds(self.median_s[0]),
            f"{b}, median call": text.seconds(self.median_s[1]),
            f"{b}, first call": text.seconds(self.cold_start_s),
            "paid back after": calls,
            "page faults a call": _both(str, self.page_faults),
            "peak memory": _both(text.size, self.peak_bytes),
            "largest difference": largest,
            "measured in": f"{len(self.rounds)} rounds, {clean} undisturbed, "
            f"{text.count(self.threads, 'thread')}, caches hot",
            "notes": "; ".join(self.notes) or "none",
        }
        rows = [(label, mark(value)) for label, value in measured.items()]
        rows.insert(0, ("answers", answers[self.matches]))
        return text.Table.of(["", f"{b} against {a}"], rows)


def _both(shown: Callable[[int], str], pair: tuple[int, int] | None) -> str:
    return ", ".join(map(shown, pair)) if pair else "not known"


def compare(
    eager: Callable,
    compiled: Callable,
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    budget: float = 2.0,
    names: tuple[str, str] = ("eager", "compiled"),
    same_answer: bool = True,
    clock: Clock | None = None,
) -> Comparison:
    """Return how much faster *compiled* is than *eager* on *inputs*.

    Both are called as ``f(*inputs, **kwargs)``, on one copy of them.  What calls change
    in the inputs or in what the functions hold (parameters, gradients, running
    statistics, the state of an optimizer, a key-value cache) belongs to the answer: it
    is compared, put back before each call that is compared and each block that is
    timed, and at the end.  So a training step can be raced.

    *budget* is in seconds of timing, and six rounds are timed in any case; it ends
    earlier when half the width of the 95 % interval falls below 0.4 % of the ratio
    (what a pair of real functions is worth knowing to), or with Ctrl-C, which keeps the
    rounds if there are six.

    *names* are those of the two sides.  Answers may differ by the tolerance of the
    dtype, or by twice the error that eager has against float64.  ``same_answer=False``
    races two functions that are not meant to agree, such as a computation and a plain
    copy of its data.  *clock* times them instead of the one for their device.

    The design (paired blocks in random order, an exact sign interval, samples of
    equal duration, stopping on width alone) follows the randomisation test of
    Edgington and Onghena, *Randomization Tests*, 4th ed., chapter 5.

    Raises InputError when a side fails, gives nothing that can be compared, or mixes
    devices, and ValueError for a budget not above 0.
    """
    if budget <= 0:
        raise ValueError("budget (seconds) must be above 0")
    if not callable(eager) or not callable(compiled):
        raise InputError(
            "compare takes two functions and their inputs: compare(f, "
            "torch.compile(f), x)"
        )
    device = correctness.device_of((inputs, kwargs), eager, compiled)
    trial = Trial([(inputs, dict(kwargs or {}))], eager, compiled, whole=False)
    # Timed calls may draw numbers, and train, but not at the caller's cost.
    with correctness.seeded(), trial.state:
        timer = clock or timing.clock_for(device)
        with Watch() as first:
            cold_start_s, answer = _first_call(trial, timer, eager, compiled)
            held = [*answer.tensors.values(), *(t for t, *_ in trial.state.values)]
            if any(t.is_cuda for t in held):  # as in a closure
                device, timer = "cuda", clock or timing.clock_for("cuda")
            compiled_s = _warm(trial, timer, compiled, first)
        agreed = judge.agreement(trial, answer) if same_answer else judge.NOT_ASKED
        with Watch() as watch:
            eager_s = _warm(trial, timer, eager, watch)
        plans = timing.plans_for((eager_s, compiled_s), timer.sample_s)
        race = _Race(trial, timer, (eager, compiled), plans)
        with Watch() as timed:
            race.run(budget, timed, pin=device == "cpu")
        faults, peaks = race.memory(device)
    used, speedup, interval = estimate(race.rounds)
    return Comparison(
        names=names,
        speedup=speedup,
        interval=(interval.low, interval.high),
        confidence=interval.confidence,
        verdict=stats.verdict(interval),
        median_s=(median(r.a_s for r in used), median(r.b_s for r in used)),
        cold_start_s=cold_start_s,
        compiles=first.compiles,
        graphs=first.graphs,
        graph_breaks=first.graph_breaks,
        page_faults=faults and (faults[0].count, faults[1].count),
        peak_bytes=peaks,
        matches=agreed.matches,
        max_error=agreed.max_error,
        error64=agreed.off[0],
        rounds=tuple(race.rounds),
        notes=(
            *agreed.notes,
            *_compiler_notes(first, timed, compiled),
            *_timing_notes(race, faults),
        ),
        interrupted=race.interrupted,
        threads=torch.get_num_threads(),
        device=device,
    )


def _first_call(
    trial: Trial, clock: Clock, eager: Callable, compiled: Callable
) -> tuple[float, Outcome]:
    """Return seconds of the first call of the compiled side, and what it gave."""
    seconds: list[float] = []

    def timed(call: Callable[[], Any]) -> Any:
        result: list[Any] = []
        seconds.append(clock.sample(lambda: result.append(call()), 1))
        return result.pop()

    try:
        answer = trial.outcome("compiled", compiled, run=timed)
    except InputError:
        trial.outcome("eager", eager)  # the fault may be in both
        raise
    return seconds[0], answer


def _warm(trial: Trial, clock: Clock, function: Callable, watch: Watch) -> float:
    """Call until nothing compiles, three times and 50 ms at least; return s/call."""
    start, settled, times, compiles = clock.now(), 0, list[float](), watch.compiles
    while settled < 3 or clock.now() - start < 0.05:
        if len(times) % _IN_A_ROW == 0:  # or what calls use up would end
            call = trial.call(function)
        with _again():
            times.append(clock.sample(call, 1))
        settled = settled + 1 if watch.compiles == compiles else 0
        compiles = watch.compiles
        if len(times) >= 64 and clock.now() - start > 1:
            break  # it compiles on every call: the notes will say so
    return max(stats.quantile(times, 0.25), 1e-9)


@contextmanager
def _again() -> Iterator[None]:
    """Say what may be wrong with a function that fails when it is called again."""
    try:
        yield
    except Exception as error:
        raise UsedUp(
            f"a function failed when it was called again: {one_line(error)}\n"
            "If it uses something up, such as room in a cache, that comes back only "
            "before each block of calls: give it room for many."
        ) from error


@dataclass
class _Race:
    """Rounds of both sides, one block each in random order."""

    trial: Trial
    clock: Clock
    sides: tuple[Callable, Callable]
    plans: list[Plan]
    rounds: list[Round] = field(default_factory=list)
    used_up: str = ""
    """What longer blocks than those of the warm-up raise."""
    interrupted: bool = False

    def run(self, budget: float, watch: Watch, pin: bool) -> None:
        """Time until the interval is narrow, the budget spent, or Ctrl-C."""
        coin, clock, look = random.Random(0), self.clock, _FIRST_LOOK
        with ExitStack() as stack:
            stack.enter_context(timing.quiet_interpreter())
            if pin:
                stack.enter_context(timing.pinned_threads())
            bar = stack.enter_context(text.progress("timing", budget, "s"))
            start = clock.now()
            try:
                if max(plan.calls for plan in self.plans) > 1:
                    # What was estimated apart, in a busy moment, may be off by a third.
                    now = self._round(True, watch)
                    if not self.used_up:
                        per_call = now.a_s, now.b_s
                        self.plans = timing.plans_for(per_call, clock.sample_s)
                while clock.now() - start < budget or len(self.rounds) < _FEWEST:
                    self.rounds.append(self._round(coin.random() < 0.5, watch))
                    bar.update(min(clock.now() - start, budget) - bar.n)
                    if len(self.rounds) >= look:
                        look = int(look * 1.25)
                        # A disturbed machine gets more time.
                        calm = sum(r.clean for r in self.rounds) >= _FIRST_LOOK
                        if calm and estimate(self.rounds)[2].half_width <= _PRECISE:
                            break
            except KeyboardInterrupt:
                if len(self.rounds) < _FEWEST:
                    timed = text.count(len(self.rounds), "round")
                    needed = f"{_FEWEST} are needed for an interval: none given"
                    raise KeyboardInterrupt(f"{timed} timed, {needed}") from None
                self.interrupted = True

    def _round(self, a_first: bool, watch: Watch) -> Round:
        """Time one block of each side, from the state put back."""
        compiles, order = watch.compiles, (0, 1) if a_first else (1, 0)
        try:
            a, b = self._blocks(order)
        except Exception as error:
            # Calls use something up, as room in a cache, that comes back only before
            # each block: from now on a block is as long as the warm-up.
            self.used_up = one_line(error)
            self.plans = [Plan(calls=1, samples=_IN_A_ROW)] * 2
            with _again():
                a, b = self._blocks(order)
        clean = not (a.waited or b.waited) and watch.compiles == compiles
        return Round(a.seconds, b.seconds, a_first, clean, a.waited, b.waited)

    def _blocks(self, order: tuple[int, int]) -> tuple[Block, Block]:
        """Return a block of each side, timed in this order."""
        blocks = {}
        for side in order:
            call = self.trial.call(self.sides[side])
            blocks[side] = timing.block(self.clock, call, self.plans[side])
        return blocks[0], blocks[1]

    def memory(
        self, device: str
    ) -> tuple[tuple[Faults, ...] | None, tuple[int, int] | None]:
        """Return page faults and peak memory of a call of each side, where known."""
        faults = peaks = None
        if self.interrupted:
            return None, None
        try:
            call, sides = self.trial.call, self.sides
            if device == "cpu" and sys.platform != "win32":  # which does not tell
                faults = tuple(timing.page_faults(call(side)) for side in sides)
            peaks = tuple(timing.peak_bytes(call(side), device) for side in sides)
        except KeyboardInterrupt:  # the rounds are worth more than these
            self.interrupted = True
        return faults, None if peaks and None in peaks else peaks


def estimate(rounds: Sequence[Round]) -> tuple[list[Round], float, Interval]:
    """Return which of six rounds or more count, the speed-up and its interval.

    Undisturbed rounds alone count when they give an interval.  Else all do, and of a
    disturbed one we know two bounds of each time, with the waiting and without it: the
    interval then runs from the lowest ratio that these allow to the highest.  Where a
    disturbed machine leaves much open, it reaches to 1 besides, so that no verdict
    follows from it.
    """
    clean = [r for r in rounds if r.clean]
    used = clean if len(clean) >= _FEWEST else list(rounds)
    a, b = [r.a_s for r in used], [r.b_s for r in used]
    speedup, interval = stats.speedup(a, b)
    if len(clean) >= min(_ENOUGH, len(rounds)):
        return used, speedup, interval
    _, lowest = stats.speedup([r.a_s - r.a_waited_s for r in used], b)
    _, highest = stats.speedup(a, [r.b_s - r.b_waited_s for r in used])
    low, high = lowest.low, highest.high
    if max(high / speedup, speedup / low) > _OPEN:
        low, high = min(low, 1.0), max(high, 1.0)
    return used, speedup, Interval(low, high, interval.confidence)


def _compiler_notes(first: Watch, timed: Watch, compiled: Callable) -> Iterator[str]:
    """Yield what the compiler did that a reader of the number must know."""
    if timed.compiles:
        why = "; ".join(timed.reasons) or "torch gives no reason"
        yield f"recompiled while being timed ({why}): those rounds count as disturbed"
    if first.graph_breaks:
        yield f"{text.count(first.graph_breaks, 'graph break')}: see graphs()"
    if first.graphs == 0 and not _torch.has_graphs(compiled):
        yield "nothing was captured: this is eager against eager"
    if first.limit_hit or timed.limit_hit:
        yield "the recompile limit was hit: from then on it ran eagerly"
    for why in dict.fromkeys((*first.ignored, *timed.ignored)):
        yield f"the mode's CUDA graphs were not used: {why}"


def _timing_notes(race: _Race, faults: tuple[Faults, ...] | None) -> Iterator[str]:
    """Yield what about the timing itself a reader must know."""
    if race.interrupted:
        yield f"interrupted after {text.count(len(race.rounds), 'round')}"
    if race.used_up:
        yield f"timed in blocks of {_IN_A_ROW} calls: longer ones fail: {race.used_up}"
    clean = sum(r.clean for r in race.rounds)
    if clean < min(_ENOUGH, len(race.rounds) // 2):
        yield "other processes disturbed most rounds: close them and repeat"
    # A page can be 2 MiB.
    if any(side.count >= 16 and side.share > 0.3 for side in faults or ()):
        yield "many page faults: call keep_memory() first to time the arithmetic"
