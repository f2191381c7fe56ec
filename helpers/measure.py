"""compare(): eager against compiled, timed fairly, or an honest "cannot tell".

First the answers must agree; then both sides are warmed up; then they are timed
in rounds, one block each in random order, until the interval of their ratio is
narrow or the budget is spent.  It never stops because the result looks good.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

import torch

from helpers import agree, compat, stats, text
from helpers.agree import CompareError
from helpers.clock import (
    Block,
    Clock,
    Faults,
    Plan,
    block,
    clock_for,
    page_faults,
    peak_bytes,
    pinned_threads,
    quiet_interpreter,
)
from helpers.comparison import ENOUGH_CLEAN, Comparison, Round, estimate
from helpers.held import kept
from helpers.progress import Progress
from helpers.watch import Watch

WAITED = 0.02
"""A block in which our threads waited longer than this share was disturbed."""
_FIRST_LOOK, _FEWEST = 11, 6


def compare(
    eager: Callable,
    compiled: Callable | None = None,
    *inputs: Any,
    budget: float = 2.0,
    precision: float = 0.004,
    processes: int = 1,
    names: tuple[str, str] = ("eager", "compiled"),
    rtol: float | None = None,
    atol: float | None = None,
    same_answer: bool = True,
    seed: int = 0,
    clock: Clock | None = None,
) -> Comparison:
    """Return how much faster *compiled* is than *eager* on *inputs*.

    Both are called as ``f(*inputs)`` and must return at least one tensor.
    *budget* is in seconds of timing, and six rounds are timed in any case; it ends
    earlier when half the width of the 95 % interval falls below *precision*, or with
    Ctrl-C, which keeps the rounds if there are six.  What both sides hold, such as
    running statistics or an optimizer, is put back at the end.  With
    ``processes=5``, pass one self-contained function that returns ``(eager,
    compiled, inputs)`` instead: it is run in fresh processes, and the interval is
    the spread between them; Ctrl-C ends that early and keeps what is measured.
    ``same_answer=False`` races two functions that are not meant to agree, such as
    a computation and a plain copy of its data.

    The design (paired blocks in random order, an exact sign interval, samples of
    equal duration, stopping on width alone) follows the randomisation test of
    Edgington and Onghena, *Randomization Tests*, 4th ed., chapter 5.

    Raises CompareError when a side fails, returns no tensor, or mixes devices,
    and ValueError for a budget, precision or number of processes not above 0.
    """
    if min(budget, precision, processes) <= 0:
        raise ValueError(
            "budget (seconds), precision (a share) and processes must be above 0"
        )
    if processes > 1:
        from helpers.processes import in_processes

        limits = {"budget": budget, "precision": precision, "rtol": rtol, "atol": atol}
        limits |= {"same_answer": same_answer, "seed": seed}
        return in_processes(eager, compiled, processes, limits, names)
    if compiled is None or not callable(eager) or not callable(compiled):
        raise CompareError(
            "compare takes two functions and their inputs: compare(f, "
            "torch.compile(f), x); for processes=5, one function that makes all three"
        )
    limits = budget, precision, seed
    # Timed calls may draw numbers, and train, but not at the reader's cost.
    with agree.seeded(0), kept(eager, compiled):
        return _compare(
            eager, compiled, inputs, limits, names, (rtol, atol), same_answer, clock
        )


def _compare(
    eager: Callable,
    compiled: Callable,
    inputs: tuple[Any, ...],
    limits: tuple[float, float, int],
    names: tuple[str, str],
    tolerance: tuple[float | None, float | None],
    same_answer: bool,
    given: Clock | None,
) -> Comparison:
    """Return what `compare` says of one process."""
    device, seed = agree.device_of(inputs, eager, compiled), limits[-1]
    clock = given or clock_for(device)
    own = agree.clone(inputs)
    calls = partial(eager, *own), partial(compiled, *own)
    with Watch() as first:
        try:
            cold, answer, changed = _first_call(clock, compiled, inputs, seed)
        except CompareError:
            agree.run("eager", eager, inputs, seed)  # the fault may be in both
            raise
        if any(t.is_cuda for t in answer):  # what a closure holds can be on the GPU
            device, clock = "cuda", given or clock_for("cuda")
        b_s = _warm(clock, calls[1], first)
    if same_answer:
        wide = not compat.is_compiled(eager)  # else float64 would compile
        met = agree.agreement(eager, inputs, answer, changed, *tolerance, seed, wide)
    else:
        met = agree.NOT_ASKED
    del answer, changed
    with Watch() as watch:
        per_call = [_warm(clock, calls[0], watch), b_s]
    with ExitStack() as stack:
        stack.enter_context(quiet_interpreter())
        if device == "cpu":
            stack.enter_context(pinned_threads())
        timed = stack.enter_context(Watch())
        measured, ended = _rounds(clock, calls, per_call, limits, timed)
    used, speedup, interval = estimate(measured)
    faults = peaks = None
    try:
        faults = None if ended or device != "cpu" else tuple(map(page_faults, calls))
        peaks = None if ended else _peaks(calls, device)
    except KeyboardInterrupt:  # the rounds are worth more than these
        ended = True
    return Comparison(
        names=names,
        speedup=speedup,
        interval=interval and (interval.low, interval.high),
        confidence=interval.confidence if interval else 0.0,
        verdict=stats.verdict(interval),
        median_s=(median(r.a_s for r in used), median(r.b_s for r in used)),
        cold_start_s=cold,
        compiles=first.compiles,
        graphs=first.graphs,
        graph_breaks=first.graph_breaks,
        page_faults=faults and (faults[0].count, faults[1].count),
        peak_bytes=peaks,
        matches=met.matches,
        max_error=met.max_error,
        error64=met.error64,
        rounds=tuple(measured),
        notes=(
            *met.notes,
            *_input_notes(inputs),
            *_watch_notes(first, timed, compiled),
            *_timing_notes(measured, faults, ended),
        ),
        interrupted=ended,
        threads=torch.get_num_threads(),
        device=device,
        scope="this process",
    )


def _first_call(
    clock: Clock, compiled: Callable, inputs: tuple, seed: int
) -> tuple[float, Any, Any]:
    """Return seconds of the first call, what it gave, and its inputs after it."""
    took: list[float] = []

    def once(*own: Any) -> Any:
        kept: list[Any] = []
        took.append(clock.sample(lambda: kept.append(compiled(*own)), 1))
        return kept.pop()

    answer, changed = agree.run("compiled", once, inputs, seed)
    return took[0], answer, changed


def _warm(clock: Clock, call: Callable, watch: Watch) -> float:
    """Call until nothing compiles, three times and 50 ms at least; return s/call."""
    start, settled, times, seen = clock.now(), 0, [], watch.compiles
    while settled < 3 or clock.now() - start < 0.05:
        times.append(clock.sample(call, 1))
        settled = settled + 1 if watch.compiles == seen else 0
        seen = watch.compiles
        if len(times) >= 64 and clock.now() - start > 1:
            break  # it compiles on every call: the notes will say so
    return max(stats.quantile(times, 0.25), 1e-9)


def _rounds(
    clock: Clock,
    calls: tuple[Callable, Callable],
    per_call: list[float],
    limits: tuple[float, float, int],
    watch: Watch,
) -> tuple[list[Round], bool]:
    """Time rounds until the interval is narrow, the budget spent, or Ctrl-C (True)."""
    plans = [Plan.for_call(seconds, clock.sample_s) for seconds in per_call]
    budget, precision, seed = limits
    coin, done = random.Random(seed), list[Round]()
    start, look = clock.now(), _FIRST_LOOK
    with Progress("timing", budget, "s") as progress:
        try:
            while clock.now() - start < budget or len(done) < _FEWEST:
                done.append(_round(clock, calls, plans, coin.random() < 0.5, watch))
                progress.at(clock.now() - start)
                if len(done) >= look:
                    look = max(look + 1, int(look * 1.25))
                    _, _, interval = estimate(done)
                    narrow = interval is not None and interval.half_width <= precision
                    if narrow and sum(r.clean for r in done) >= _FIRST_LOOK:
                        break  # a disturbed machine gets the whole budget
        except KeyboardInterrupt:
            if estimate(done)[-1] is None:
                said = f"{text.count(len(done), 'round')} timed, {_FEWEST} are needed"
                raise KeyboardInterrupt(f"{said} for an interval: none given") from None
            return done, True
    return done, False


def _round(
    clock: Clock,
    calls: tuple[Callable, Callable],
    plans: list[Plan],
    a_first: bool,
    watch: Watch,
) -> Round:
    """Time one block of each side."""
    seen, pair = watch.compiles, dict[int, Block]()
    for side in (0, 1) if a_first else (1, 0):
        pair[side] = block(clock, calls[side], plans[side])
    undisturbed = max(b.waited for b in pair.values()) <= WAITED
    clean = undisturbed and watch.compiles == seen
    return Round(pair[0].seconds, pair[1].seconds, a_first, clean)


def _peaks(calls: tuple[Callable, Callable], device: str) -> tuple[int, int] | None:
    a, b = (peak_bytes(call, device) for call in calls)
    return None if a is None or b is None else (a, b)


def _input_notes(inputs: tuple[Any, ...]) -> Iterator[str]:
    """Yield what about the inputs makes a timing unlike that of real data.

    Zeros draw less power and can skip work; denormal numbers, below 1.2e-38 in
    float32, are ten to a hundred times slower on many CPUs.
    """
    for position, t in enumerate(agree.tensors(inputs)):
        if not t.is_floating_point() or t.numel() < 2:
            continue
        sample = t.detach().flatten()[:: max(1, t.numel() // 65536)].double()
        native = t.device.type == "cpu" and t.dtype in (torch.float32, torch.float64)
        tiny = torch.finfo(t.dtype).tiny if native else 0.0
        if bool((sample == 0).all()):
            yield f"input {position} is all zeros: use random numbers"
        elif float(((sample != 0) & (sample.abs() < tiny)).double().mean()) > 0.01:
            yield f"input {position} holds denormal numbers, which are slow"
        elif not bool(sample.isfinite().all()):
            yield f"input {position} holds NaN or infinity"


def _watch_notes(first: Watch, timed: Watch, compiled: Callable) -> Iterator[str]:
    """Yield what the compiler did that a reader of the number must know."""
    if timed.compiles:
        why = "; ".join(timed.reasons) or "torch gives no reason"
        yield f"recompiled while being timed ({why}): those rounds count as disturbed"
    if first.graph_breaks:
        yield f"{text.count(first.graph_breaks, 'graph break')}: see graphs()"
    if first.graphs == 0 and not compat.captured(compiled):
        yield "nothing was captured: this is eager against eager"
    if first.limit_hit or timed.limit_hit:
        yield "the recompile limit was hit: from then on it ran eagerly"
    for why in dict.fromkeys((*first.ignored, *timed.ignored)):
        yield f"the mode was ignored here: {why}"


def _timing_notes(
    measured: list[Round], faults: tuple[Faults, ...] | None, ended: bool
) -> Iterator[str]:
    """Yield what about the timing itself a reader must know."""
    if ended:
        yield f"interrupted after {text.count(len(measured), 'round')}"
    clean = sum(r.clean for r in measured)
    if clean < ENOUGH_CLEAN and clean < len(measured) // 2:
        yield "other processes disturbed most rounds: close them and repeat"
    if any(side.dominate for side in faults or ()):
        yield "page faults dominate: call keep_memory() first to time the arithmetic"
