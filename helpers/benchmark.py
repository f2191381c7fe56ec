"""compare(): eager against compiled, timed fairly, or an honest "cannot tell".

First the answers must agree (`helpers.correctness`); then both sides are warmed up;
then they are timed in rounds, one block of each in random order (`helpers.timing`),
until the interval of their ratio (`helpers.stats`) is narrow or the budget is spent.
It never stops because the result looks good.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import random
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

from helpers import _torch, correctness, results, stats, text
from helpers.capture import Watch
from helpers.correctness import Setting, explained
from helpers.errors import InputError
from helpers.results import Machine, Result
from helpers.stats import Interval
from helpers.tensors import tensors
from helpers.text import mark
from helpers.timing import (
    Clock,
    Faults,
    Plan,
    block,
    clock_for,
    page_faults,
    peak_bytes,
    pinned_threads,
    plans_for,
    quiet_interpreter,
)

_FEWEST = 6  # rounds for an interval at 95 %
_FIRST_LOOK = 11  # rounds before the interval is first asked whether it is narrow
_ENOUGH = 15  # undisturbed rounds, beside which disturbed ones are of no matter
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
        faults = peaks = "not known"
        if self.page_faults is not None:
            faults = "{}, {}".format(*self.page_faults)
        if self.peak_bytes is not None:
            peaks = "{}, {}".format(*map(text.size, self.peak_bytes))
        difference = f"{self.max_error:.2g}"
        if self.error64 is not None:
            off_a, off_b = self.error64
            difference += f" (from float64: {a} {off_a:.2g}, {b} {off_b:.2g})"
        clean = sum(r.clean for r in self.rounds)
        return (
            ("verdict", self.ratio()),
            (f"{a}, median call", text.seconds(self.median_s[0])),
            (f"{b}, median call", text.seconds(self.median_s[1])),
            (f"{b}, first call", text.seconds(self.cold_start_s)),
            ("paid back after", calls),
            ("page faults a call", faults),
            ("peak memory", peaks),
            ("largest difference", difference),
            (
                "measured in",
                f"{self.scope}: {len(self.rounds)} rounds, {clean} undisturbed, "
                f"{text.count(self.threads, 'thread')}, caches hot",
            ),
            ("notes", "; ".join(self.notes) or "none"),
        )

    def table(self) -> text.Table:
        """Return the result as a table: facts plain, measured values marked."""
        answers = {True: "agree", False: "DIFFER", None: "not compared"}
        rows = [("answers", answers[self.matches])]
        rows += [(label, mark(value)) for label, value in self.facts()]
        return text.Table.of(["", f"{self.names[1]} against {self.names[0]}"], rows)

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def compare(
    eager: Callable,
    compiled: Callable | None = None,
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    setup: Callable[[], Any] | None = None,
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

    Both are called as ``f(*inputs, **kwargs)``, on one copy of them.  What calls change
    in the inputs or in what the functions hold (parameters, gradients, the state of an
    optimizer, a key-value cache) belongs to the answer: it is compared, put back before
    each call that is compared and each block that is timed, and at the end.  So a
    training step can be raced.  *setup* is called before each of these, outside the
    clock, for what cannot be put back; what it returns, unless None, takes the place
    of the inputs (a tuple, or one).

    *budget* is in seconds of timing, and six rounds are timed in any case; it ends
    earlier when half the width of the 95 % interval falls below *precision*, a share of
    the ratio (what a pair of real functions is worth knowing to), or with Ctrl-C, which
    keeps the rounds if there are six.

    *processes* above 1 repeats it in fresh processes, since where memory lands differs
    between them, and gives the spread.  Pass one self-contained function that returns
    ``(eager, compiled, inputs)`` or ``(eager, compiled, inputs, kwargs)`` instead.

    *rtol* and *atol* are the tolerance of the answers, relative and absolute; without
    them it is that of the dtype, or twice the error that eager has against float64.
    ``same_answer=False`` races two functions that are not meant to agree, such as a
    computation and a plain copy of its data.  *names* are those of the two sides.
    *seed* fixes the order of the sides in each round and the random numbers that they
    draw.  *clock* times them instead of the one for their device.

    The design (paired blocks in random order, an exact sign interval, samples of
    equal duration, stopping on width alone) follows the randomisation test of
    Edgington and Onghena, *Randomization Tests*, 4th ed., chapter 5.

    Raises InputError when a side fails, gives nothing that can be compared, or mixes
    devices, and ValueError for a budget, precision or number of processes not above 0.
    """
    if min(budget, precision, processes) <= 0:
        raise ValueError(
            "budget (seconds), precision (a share) and processes must be above 0"
        )
    if processes > 1:
        options = {"budget": budget, "precision": precision, "rtol": rtol, "atol": atol}
        options |= {"same_answer": same_answer, "seed": seed, "names": names}
        return _in_processes(eager, compiled, processes, options)
    if compiled is None or not callable(eager) or not callable(compiled):
        raise InputError(
            "compare takes two functions and their inputs: compare(f, "
            "torch.compile(f), x); for processes=5, one function that makes all three"
        )
    device = correctness.device_of((inputs, kwargs), eager, compiled)
    setting = Setting((eager, compiled), inputs, kwargs, setup)
    timer = clock or clock_for(device)
    # Timed calls may draw numbers, and train, but not at the reader's cost.
    with correctness.seeded(seed), setting.state:
        with Watch() as first:
            cold_start_s, gives_cuda = _first_call(setting, timer, eager, compiled)
            if gives_cuda:  # by what a closure holds
                device, timer = "cuda", clock or clock_for("cuda")
            compiled_s = _warm(setting, timer, compiled)
        agreed = correctness.NOT_ASKED
        if same_answer:
            agreed = correctness.agreement(setting, eager, compiled, rtol, atol, seed)
        eager_s = _warm(setting, timer, eager)
        sides, faults = (eager, compiled), None
        if device == "cpu":
            faults = [page_faults(setting.call(side)) for side in sides]
        peaks = tuple(peak_bytes(setting.call(side), device) for side in sides)
        with Watch() as timed:
            plans = plans_for((eager_s, compiled_s), timer.sample_s)
            race = _Race(setting, timer, sides, plans, timed)
            race.run(budget, precision, seed, pin=device == "cpu")
    used, speedup, interval = estimate(race.rounds)
    return Comparison(
        names=names,
        speedup=speedup,
        interval=interval and (interval.low, interval.high),
        confidence=interval.confidence if interval else 0.0,
        verdict=stats.verdict(interval),
        median_s=(median(r.a_s for r in used), median(r.b_s for r in used)),
        cold_start_s=cold_start_s,
        compiles=first.compiles,
        graphs=first.graphs,
        graph_breaks=first.graph_breaks,
        page_faults=faults and (faults[0].count, faults[1].count),
        peak_bytes=None if None in peaks else peaks,
        matches=agreed.matches,
        max_error=agreed.max_error,
        error64=agreed.error64,
        rounds=tuple(race.rounds),
        notes=(*agreed.notes, *_notes(first, race, compiled, faults or ())),
        interrupted=race.interrupted,
        threads=torch.get_num_threads(),
        device=device,
        scope="this process",
    )


def _first_call(
    setting: Setting, clock: Clock, eager: Callable, compiled: Callable
) -> tuple[float, bool]:
    """Return seconds of the compiled side's first call, and whether CUDA gave it."""
    answer = []
    try:
        with explained("compiled"):
            call = setting.call(compiled)
            seconds = clock.sample(lambda: answer.append(call()), 1)
    except InputError:
        with explained("eager"):  # the fault may be in both
            setting.call(eager)()
        raise
    return seconds, any(t.is_cuda for t in tensors(answer))


def _warm(setting: Setting, clock: Clock, function: Callable) -> float:
    """Call until nothing compiles, three times and 50 ms at least; return s/call."""
    start, times, settled, compiles = clock.now(), [], 0, 0
    with Watch() as watch, explained("again"):
        while settled < 3 or clock.now() - start < 0.05:
            if len(times) % 3 == 0:  # or room in a cache would come to its end
                call = setting.call(function)
            times.append(clock.sample(call, 1))
            settled = settled + 1 if watch.compiles == compiles else 0
            compiles = watch.compiles
            if len(times) >= 64 and clock.now() - start > 1:
                break  # it compiles on every call: the notes will tell
    return max(stats.quantile(times, 0.25), 1e-9)


@dataclass
class _Race:
    """Rounds of both sides, one block each in random order."""

    setting: Setting
    clock: Clock
    sides: tuple[Callable, Callable]
    plans: list[Plan]
    watch: Watch
    rounds: list[Round] = field(default_factory=list)
    interrupted: bool = False

    def run(self, budget: float, precision: float, seed: int, pin: bool) -> None:
        """Time until the interval is narrow, the budget spent, or Ctrl-C."""
        coin, clock, look = random.Random(seed), self.clock, _FIRST_LOOK
        with (
            quiet_interpreter(),
            pinned_threads() if pin else nullcontext(),
            text.progress("timing", budget, "s") as bar,
        ):
            start = clock.now()
            try:
                while clock.now() - start < budget or len(self.rounds) < _FEWEST:
                    self.rounds.append(self._round(a_first=coin.random() < 0.5))
                    bar.update(min(clock.now() - start, budget) - bar.n)
                    if len(self.rounds) < look:
                        continue
                    look = max(look + 1, int(look * 1.25))
                    _, _, interval = estimate(self.rounds)
                    clean = sum(r.clean for r in self.rounds)
                    if clean >= _FIRST_LOOK and interval.half_width <= precision:
                        break  # a disturbed machine gets more time
            except KeyboardInterrupt:
                if len(self.rounds) < _FEWEST:
                    timed = text.count(len(self.rounds), "round")
                    needed = f"{_FEWEST} are needed for an interval: none given"
                    raise KeyboardInterrupt(f"{timed} timed, {needed}") from None
                self.interrupted = True

    def _round(self, a_first: bool) -> Round:
        """Time one block of each side, from the state put back."""
        compiles, blocks = self.watch.compiles, {}
        for side in (0, 1) if a_first else (1, 0):
            call = self.setting.call(self.sides[side])
            with explained("again"):
                blocks[side] = block(self.clock, call, self.plans[side])
        a, b = blocks[0], blocks[1]
        clean = not (a.waited or b.waited) and self.watch.compiles == compiles
        return Round(a.seconds, b.seconds, a_first, clean, a.waited, b.waited)


def estimate(rounds: Sequence[Round]) -> tuple[list[Round], float, Interval | None]:
    """Return the rounds that count, the speed-up and its interval.

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
    if interval is None or len(clean) >= min(_ENOUGH, len(rounds)):
        return used, speedup, interval
    _, lowest = stats.speedup([r.a_s - r.a_waited_s for r in used], b)
    _, highest = stats.speedup(a, [r.b_s - r.b_waited_s for r in used])
    low, high = lowest.low, highest.high
    if max(high / speedup, speedup / low) > _OPEN:
        low, high = min(low, 1.0), max(high, 1.0)
    return used, speedup, Interval(low, high, interval.confidence)


def _notes(
    first: Watch, race: _Race, compiled: Callable, faults: Sequence[Faults]
) -> Iterator[str]:
    """Yield what the compiler and the system did that a reader must know."""
    timed, rounds = race.watch, race.rounds
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
    if race.interrupted:
        yield f"interrupted after {text.count(len(rounds), 'round')}"
    if sum(r.clean for r in rounds) < min(_ENOUGH, len(rounds) // 2):
        yield "other processes disturbed most rounds: close them and repeat"
    if any(side.dominate for side in faults):
        yield "page faults dominate: call keep_memory() first to time the arithmetic"


# --- fresh processes -----------------------------------------------------------

# Where memory lands differs from process to process, and with it the speed-up, by
# more than the interval of any one.  The children get source text and answer in JSON,
# so nothing is pickled.

_HOW = (
    "processes=N takes one self-contained function, with its imports inside, that "
    "returns (eager, compiled, inputs): compare(make, processes=5)"
)
_SCRIPT = """\
from __future__ import annotations
{source}
from helpers.benchmark import compare_prepared
compare_prepared({name}(), {options!r}).save({path!r})
"""


def _in_processes(
    make: Callable, compiled: Any, processes: int, options: dict[str, Any]
) -> Comparison:
    """Return ``compare(*make(), **options)`` of several processes as one.

    Ctrl-C leaves the processes that are done, if there are two.
    """
    try:
        source = textwrap.dedent(inspect.getsource(make))
    except (OSError, TypeError):  # typed at a prompt, or no function
        source = ""
    if compiled is not None or not source.startswith(("def ", "@")):
        raise InputError(_HOW)
    runs: list[Comparison] = []
    with text.progress("fresh processes", processes) as bar:
        try:
            while len(runs) < processes:
                runs.append(_in_process(make.__name__, source, options))
                bar.update()
        except KeyboardInterrupt:
            if len(runs) < 2:
                raise
    return combine(runs)


def _in_process(name: str, source: str, options: dict[str, Any]) -> Comparison:
    """Run one comparison in a fresh interpreter, in this folder, and return it."""
    where = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with tempfile.TemporaryDirectory() as folder:
        script, path = Path(folder, "comparison.py"), str(Path(folder, "result.json"))
        lines = _SCRIPT.format(name=name, source=source, options=options, path=path)
        script.write_text(lines, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script],
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "COURSE_QUIET": "1", "PYTHONPATH": where},
        )
        if done.returncode == 0:
            return results.load(path)
    last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    raise InputError(f"a fresh process failed: {last}\n{_HOW}")


def compare_prepared(sides: tuple, options: Mapping[str, Any]) -> Comparison:
    """Return ``compare`` of ``(eager, compiled, inputs)`` or ``(..., kwargs)``.

    *inputs* is a tuple, or one input.
    """
    eager, compiled, inputs, *kwargs = sides
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    if kwargs:
        options = {**options, "kwargs": kwargs[0]}
    return compare(eager, compiled, *inputs, **options)


def combine(runs: Sequence[Comparison]) -> Comparison:
    """Return one comparison for several of the same, one per process.

    The speed-up is the median of theirs, and the interval is exact: the sign interval
    from six processes on, below that lowest to highest, whose confidence is stated
    (93.75 % for five).
    """
    ratios = [run.speedup for run in runs]
    interval = stats.sign_interval(ratios)
    if interval is None:  # n values all miss their median on one side: 2 in 2**n
        interval = Interval(min(ratios), max(ratios), 1 - 2.0 ** (1 - len(runs)))
    middle = sorted(runs, key=lambda run: run.speedup)[len(runs) // 2]
    notes = dict.fromkeys(note for run in runs for note in run.notes)
    return dataclasses.replace(
        middle,
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
