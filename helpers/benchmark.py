"""compare(): eager against compiled, timed fairly, or an honest "cannot tell".

First the answers must agree; then both sides are warmed up; then they are timed
in rounds, one block each in random order, until the interval of their ratio is
narrow or the budget is spent.  It never stops because the result looks good.

What a comparison is: the numbers, the verdict, the table, the JSON.

Repeat a comparison in fresh processes: what one process cannot know.

Where memory lands differs from process to process, and with it the speed-up, by
more than the interval of any single process.  The children get source text
and answer in JSON, so nothing is pickled.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from helpers import _torch, correctness, results, stats, text
from helpers.capture import Watch
from helpers.errors import InputError
from helpers.results import Machine, Result
from helpers.session import restored
from helpers.stats import Interval
from helpers.tensors import clone, tensors
from helpers.text import mark
from helpers.timing import (
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

ENOUGH_CLEAN = 15
"""With this many undisturbed rounds, the disturbed ones do not count."""


@dataclass(frozen=True)
class Round:
    """One block of each side: seconds per call, who went first, undisturbed?"""

    a_s: float
    b_s: float
    a_first: bool
    clean: bool


def estimate(rounds: Sequence[Round]) -> tuple[list[Round], float, Interval | None]:
    """Return the rounds that count, the speed-up and its interval."""
    clean = [r for r in rounds if r.clean]
    used = clean if len(clean) >= ENOUGH_CLEAN else list(rounds)
    return used, *stats.speedup([r.a_s for r in used], [r.b_s for r in used])


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """What ``compare`` found; *a* is eager and *b* compiled unless renamed."""

    names: tuple[str, str]
    speedup: float
    """Median of the paired ratios a/b: above 1, the compiled side is faster."""
    interval: tuple[float, float] | None
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
    scope: str
    """``this process``, or how many fresh processes."""
    interrupted: bool = False
    """Whether Ctrl-C ended it before its budget did."""
    machine: Machine = field(default_factory=Machine.here)
    command: str = field(default_factory=results.command)
    when: str = field(default_factory=results.now)

    @property
    def calls_to_pay_back(self) -> float:
        """Return after how many calls the first one is paid back; may be inf."""
        return stats.calls_to_pay_back(self.cold_start_s, *self.median_s)

    def sentence(self) -> str:
        """Return the result as one sentence, measured values marked."""
        a, b = self.names
        return f"{b} against {a}: {mark(self.ratio())}"

    def ratio(self) -> str:
        """Return the verdict, the speed-up and its interval, nothing marked."""
        if self.interval is None:
            return f"{self.verdict} (too few rounds for an interval)"
        low, high = self.interval
        return (
            f"{self.verdict}: {self.speedup:.3g}x, {self.confidence:.0%} interval "
            f"{low:.3g} to {high:.3g}"
        )

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return what was found as (label, text) pairs, nothing marked."""
        a, b = self.names
        calls = {
            "faster": f"{self.calls_to_pay_back:.0f} calls",
            "cannot tell": "cannot tell",
        }.get(self.verdict, "no number of calls")
        peak = ("", "") if self.peak_bytes is None else map(text.size, self.peak_bytes)
        clean = sum(r.clean for r in self.rounds)
        return (
            ("verdict", self.ratio()),
            (f"{a}, median call", text.seconds(self.median_s[0])),
            (f"{b}, median call", text.seconds(self.median_s[1])),
            (f"{b}, first call", text.seconds(self.cold_start_s)),
            ("paid back after", calls),
            (
                "page faults a call",
                ", ".join(map(str, self.page_faults or ("not known",))),
            ),
            ("peak memory", ", ".join(p for p in peak if p) or "not known"),
            ("largest difference", self._errors()),
            (
                "measured in",
                f"{self.scope}: {len(self.rounds)} rounds, {clean} undisturbed, "
                f"{text.count(self.threads, 'thread')}, caches hot",
            ),
            ("notes", "; ".join(self.notes) or "none"),
        )

    def _errors(self) -> str:
        said = f"{self.max_error:.2g}"
        if self.error64 is not None:
            a, b = self.error64
            said += f" (from float64: {self.names[0]} {a:.2g}, {self.names[1]} {b:.2g})"
        return said

    def table(self) -> text.Table:
        """Return the result as a table: facts plain, measured values marked."""
        answers = {True: "agree", False: "DIFFER", None: "not compared"}
        rows = [("answers", answers[self.matches])]
        rows += [(label, mark(value)) for label, value in self.facts()]
        return text.Table.of(["", f"{self.names[1]} against {self.names[0]}"], rows)

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


_HOW = (
    "processes=N takes one self-contained function, with its imports inside, that "
    "returns (eager, compiled, inputs): compare(make, processes=5)"
)
MARK = "comparison:"


def in_processes(
    make: Callable,
    compiled: Any,
    processes: int,
    limits: dict[str, Any],
    names: tuple[str, str],
) -> Comparison:
    """Return the median process, with the spread between them as its interval.

    The speed-up is the median of the processes' speed-ups; the interval is exact:
    an order-statistic interval from six processes on, below that lowest to
    highest, whose confidence is stated (93.75 % for five).  *limits* are options of
    ``compare``.  Ctrl-C leaves the processes that are done, if there are two.
    """
    if compiled is not None or not callable(make):
        raise InputError(_HOW)
    order, runs = {**_source(make), "limits": limits}, []
    with text.progress("fresh processes", processes) as bar:
        try:
            while len(runs) < processes:
                runs.append(_child(order))
                bar.update()
        except KeyboardInterrupt:
            if len(runs) < 2:
                raise
    return combine(tuple(runs), names)


def combine(runs: tuple[Comparison, ...], names: tuple[str, str]) -> Comparison:
    """Return one comparison for several of the same, one per process."""
    ratios = [run.speedup for run in runs]
    interval = stats.sign_interval(ratios) or stats.range_interval(ratios)
    middle = sorted(runs, key=lambda run: run.speedup)[len(runs) // 2]
    notes = dict.fromkeys(note for run in runs for note in run.notes)
    return dataclasses.replace(
        middle,
        names=names,
        speedup=median(ratios),
        interval=(interval.low, interval.high),
        confidence=interval.confidence,
        verdict=stats.verdict(interval),
        median_s=tuple(median(run.median_s[i] for run in runs) for i in (0, 1)),
        cold_start_s=median(run.cold_start_s for run in runs),
        matches=False if any(run.matches is False for run in runs) else middle.matches,
        max_error=max(run.max_error for run in runs),
        rounds=tuple(r for run in runs for r in run.rounds),
        notes=tuple(notes),
        scope=f"{len(runs)} fresh processes",
    )


def _source(make: Callable) -> dict[str, str]:
    """Return the name and the source text of *make*, for a child."""
    try:
        source = textwrap.dedent(inspect.getsource(make))
    except (OSError, TypeError) as error:
        raise InputError(f"the source of {make!r} is not to be had. {_HOW}") from error
    if not source.lstrip().startswith(("def ", "@")):
        raise InputError(_HOW)
    return {"name": make.__name__, "source": source}


def _child(order: dict[str, Any]) -> Comparison:
    """Run one comparison in a fresh interpreter, in this folder, and return it."""
    course, more = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")
    path = os.pathsep.join([course, more] if more else [course])
    done = subprocess.run(
        [sys.executable, "-m", "helpers.child"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "COURSE_QUIET": "1", "PYTHONPATH": path},
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            return Comparison.from_json(json.loads(line[len(MARK) :]))
    last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    raise InputError(f"a fresh process failed: {last}\n{_HOW}")


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

    Raises InputError when a side fails, returns no tensor, or mixes devices,
    and ValueError for a budget, precision or number of processes not above 0.
    """
    if min(budget, precision, processes) <= 0:
        raise ValueError(
            "budget (seconds), precision (a share) and processes must be above 0"
        )
    if processes > 1:
        from helpers.benchmark import in_processes

        limits = {"budget": budget, "precision": precision, "rtol": rtol, "atol": atol}
        limits |= {"same_answer": same_answer, "seed": seed}
        return in_processes(eager, compiled, processes, limits, names)
    if compiled is None or not callable(eager) or not callable(compiled):
        raise InputError(
            "compare takes two functions and their inputs: compare(f, "
            "torch.compile(f), x); for processes=5, one function that makes all three"
        )
    limits = budget, precision, seed
    # Timed calls may draw numbers, and train, but not at the reader's cost.
    with correctness.seeded(0), restored(eager, compiled):
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
    device, seed = correctness.device_of(inputs, eager, compiled), limits[-1]
    clock = given or clock_for(device)
    own = clone(inputs)
    calls = partial(eager, *own), partial(compiled, *own)
    with Watch() as first:
        try:
            cold, answer, changed = _first_call(clock, compiled, inputs, seed)
        except InputError:
            correctness.run("eager", eager, inputs, seed)  # the fault may be in both
            raise
        if any(t.is_cuda for t in answer):  # what a closure holds can be on the GPU
            device, clock = "cuda", given or clock_for("cuda")
        b_s = _warm(clock, calls[1], first)
    if same_answer:
        wide = not _torch.is_compiled(eager)  # else float64 would compile
        met = correctness.agreement(
            eager, inputs, answer, changed, *tolerance, seed, wide
        )
    else:
        met = correctness.NOT_ASKED
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

    answer, changed = correctness.run("compiled", once, inputs, seed)
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
    with text.progress("timing", budget, "s") as bar:
        try:
            while clock.now() - start < budget or len(done) < _FEWEST:
                done.append(_round(clock, calls, plans, coin.random() < 0.5, watch))
                bar.update(min(clock.now() - start, budget) - bar.n)
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
    for position, t in enumerate(tensors(inputs)):
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
    if first.graphs == 0 and not _torch.captured(compiled):
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
