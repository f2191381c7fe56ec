"""Does compiled code give eager's answers?  Place by place; float64 decides.

`differences` is for two functions, `judged` for one program in two ways, and
`agreement` for `compare`: a timing of a wrong answer is worth nothing.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.overrides import BaseTorchFunctionMode

from . import _torch, correctness
from .capture import each_call
from .correctness import distance, size_of
from .differences import Difference
from .errors import one_line
from .outcomes import Call, Outcome, Place, Trial, checked, same_plain
from .session import compile_apart

_ROUNDS = 3
"""So often compiled code gives its answers: what is wrong may not always be."""
_ROUGH = 0.05
"""Above this share of its size, a difference of random results is no rounding."""
_DRAWN = ("values", "nan/inf", "shape", "missing", "extra")
"""What may differ from one random number to the next."""
_SHORT = 1e-4
"""Farther off than this share, eager computes in float16 or bfloat16."""
_COARSEST = 2**-8
"""The last digit of bfloat16: numbers are moved by no more."""
_SHOWN = 6
"""So many entries of a dictionary are told."""
_NEW = "only after the calls before it"
_DIFFER = "results differ: the speed-up is that of another computation"
SEEDED = (
    "random numbers that it seeds itself are others by design: with "
    "torch._inductor.config.fallback_random = True they are eager's"
)
CHANGES_DIFFER = "what is returned agrees; a gradient, or what else changes, differs"
_Compiling = Callable[[], Callable[..., Any]]
_Outcomes = dict[int, Outcome]
"""The outcome of each call, by its number."""


@dataclass(frozen=True)
class Judgement:
    """What differs, how far each call is off, and what could not be decided.

    *off* has, for each call, the largest distance of a result from float64, of eager
    and of compiled; None where float64 could not run, or nothing came.  *undecided* has
    the calls of which random numbers leave it open.  *max_error* is the largest
    absolute difference between both sides of `agreement`.
    """

    differences: tuple[Difference, ...]
    off: tuple[tuple[float, float] | None, ...]
    undecided: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    max_error: float = 0.0

    @property
    def matches(self) -> bool | None:
        """Whether all that counts is eager's; None where that was not decided."""
        if any(not one.look for one in self.differences):
            return False
        return None if self.undecided else True


NOT_ASKED = Judgement((), (None,), (1,), ("two different computations, on purpose",))


def differences(
    eager: Callable[..., Any],
    compiled: Callable[..., Any],
    calls: Sequence[Any],
    gradients: bool | Callable[[Any], torch.Tensor] = False,
) -> tuple[Difference, ...]:
    """Return where *compiled* gives something else than *eager*, if anywhere.

    *calls* has a tuple of inputs for each call, or a dictionary of keyword arguments.
    Both functions are called with copies, in order and from the same state.  Compared
    are what they return (tensors, numbers, texts, in any nest), what they write into
    their inputs and what they hold, and with *gradients* the gradients of all inputs
    and parameters: of a weighted sum of the results, or of the loss that a function
    makes of them.  Strides and aliases don't count.  Nothing is compiled here, unless
    *compiled* is and draws random numbers: then a fresh compile draws eager's.

    Raises what *eager* raises.
    """
    pairs = each_call(calls)
    trial = Trial(pairs, eager, compiled, gradients=gradients, whole=False)
    with correctness.seeded(), trial.state:
        usual = Eager(trial)
        for one in usual.seen.values():
            if one.error:
                raise one.error
        found = usual.against(trial.round(compiled))
        again = None if _torch.is_compiled(compiled) else lambda: compiled
        found += usual.against_drawn(again)
    return tuple(d for d in found if not d.look)


def agreement(trial: Trial, first: Outcome) -> Judgement:
    """Compare *first*, which the compiled side gave, with eager, and both with float64.

    What is returned must agree as ``torch.testing.assert_close`` has it for the dtype,
    or else be about as near to float64 as eager is.  Where random numbers are drawn,
    another compile is compared.
    """
    usual = Eager(trial, 0)
    x = checked("eager", usual.seen[0])
    found = usual.against({0: first})
    if _torch.is_compiled(trial.compiled):
        found += usual.against_drawn()
    x, y = trial.paired(x, usual.drawn.get(0, first))
    off, notes = usual.off(0, y), usual.notes()
    if any(one.changed for p, one in x.left.items() if p.startswith("input ")):
        notes.append("changes its inputs: each timed call sees other numbers")
    if bad := [d for d in found if not d.look]:
        same = x.tensors and all(d.place in {**x.left, **y.left} for d in bad)
        notes.append(CHANGES_DIFFER if same else _DIFFER)
    error, undecided = _largest(x, y), tuple(usual.undecided)
    return Judgement(tuple(found), (off,), undecided, tuple(notes), error)


def judged(
    eager: Callable[..., Any],
    compiled: Callable[..., Any],
    calls: Sequence[Call],
    *,
    gradients: bool | Callable[[Any], torch.Tensor] = False,
    model: Any = None,
    again: _Compiling | None = None,
    running: Callable[[str], None] = lambda side: None,
) -> Judgement:
    """Return all in which *compiled* is not what *eager* is, one program in two ways.

    Both run *calls* in order, from the same state and on copies; then each call by
    itself, where calls change what the next one finds.  *model* is what *eager* runs,
    if that only wraps it.  *again* compiles once more in the same way, where random
    numbers are drawn: without it, that is `compile_apart`.  *running* is told what
    begins: ``eager``, or ``the build``.  Differences are in the order of their time.
    """
    trial = Trial(calls, eager, compiled, gradients=gradients, model=model)
    with correctness.seeded(0), trial.state:
        running("eager")
        usual = Eager(trial)
        numbers = [*range(len(trial.calls))] if usual.changes else []
        alone = [Eager(trial, n) for n in numbers[1:]]  # the first one is alone
        running("the build")
        theirs = [trial.round(compiled) for _ in range(_ROUNDS)]
        single = [trial.round(compiled, one.only) for one in alone]
        running("eager")
        found = _in_rounds([usual.against(seen) for seen in theirs])
        byself = [d for e, s in zip(alone, single, strict=True) for d in e.against(s)]
        running("the build")
        if usual.seeds_itself(found, again):
            found = byself = []
        found += usual.against_drawn(again)
        running("eager")
        off = tuple(usual.off(n, theirs[0][n]) for n in range(len(trial.calls)))
        undecided, notes = tuple(sorted(usual.undecided)), tuple(usual.notes())
    return Judgement(_together(found, byself, bool(alone)), off, undecided, notes)


def _in_rounds(rounds: list[list[Difference]]) -> list[Difference]:
    """Return each difference once, with how often it was seen."""
    first: dict[Any, Difference] = {}
    for d in chain(*rounds):
        first.setdefault(_key(d), d)
    often = Counter(key for found in rounds for key in set(map(_key, found)))
    return [
        d
        if often[key] == len(rounds)
        else replace(d, note=f"in {often[key]} of {len(rounds)} rounds")
        for key, d in sorted(first.items(), key=lambda item: item[0][0])
    ]


def _key(found: Difference) -> tuple[Any, ...]:
    return found.call, found.where


def _together(
    found: list[Difference], alone: list[Difference], asked: bool
) -> tuple[Difference, ...]:
    """Return the differences in the sequence, and those in a call by itself."""
    known, single = (set(map(_key, some)) for some in (found, alone))
    if asked:
        found = [
            replace(d, note="; ".join(filter(None, (d.note, _NEW))))
            if d.call > 1 and _key(d) not in single
            else d
            for d in found
        ]
    more = [replace(d, note="called by itself") for d in alone if _key(d) not in known]
    return tuple(sorted([*found, *more], key=lambda d: (d.look, d.call)))


class Eager:
    """What eager gives in one round, in float64, and where last digits are moved.

    Asked for only where numbers differ in a bit.
    """

    def __init__(self, trial: Trial, only: int | None = None) -> None:
        self.trial, self.only = trial, only
        self.seen = self._round()
        self.undecided, self._blind = set[int](), set[int]()
        self.seeded, self._moved = False, dict[float, list[_Outcomes]]()
        self.drawn: _Outcomes = {}
        """What a compile gave that draws eager's random numbers."""

    def _round(self, **how: Any) -> _Outcomes:
        return self.trial.round(self.trial.eager, self.only, **how)

    @cached_property
    def changes(self) -> bool:
        """Whether a call of several changes what the next one finds."""
        seen = self.seen.values()
        held = {tuple(p for p in x.left if not p.startswith("input ")) for x in seen}
        return len(seen) > 1 and (any(x.changes for x in seen) or len(held) > 1)

    @cached_property
    def _others(self) -> _Outcomes:
        """What it gives with other random numbers."""
        return self._round(seed=1000)

    @cached_property
    def draws(self) -> bool:
        """Whether random numbers are drawn."""
        return not self._gives(self._others)

    @cached_property
    def varies(self) -> set[str]:
        """The fields of a form that random numbers decide."""
        both = [(n, x, self._others[n]) for n, x in self.seen.items()]
        forms = [_forms(n, x, y) for n, x, y in both if not (x.error or y.error)]
        return {d.field for found in forms for d in found}

    @cached_property
    def steady(self) -> bool:
        """Whether it gives the same again with the same random numbers."""
        return self._gives(self._round())

    def _gives(self, other: _Outcomes) -> bool:
        # Not to the bit: on a GPU, sums in another order differ in their last digits.
        for n, x in self.seen.items():
            if (x.error is None) != (other[n].error is None):
                return False
            looks = () if x.error else (_forms, _values)
            if any(one.field in _DRAWN for at in looks for one in at(n, x, other[n])):
                return False
        return True

    @cached_property
    def truth(self) -> _Outcomes:
        """What it gives in float64, of the calls where that can judge."""
        around = partial(correctness.in_float64, self.trial.state)
        # A dtype it cannot do is no reason to stop, nor what is compiled inside.
        with suppress(Exception), torch.compiler.set_stance("force_eager"):
            exact = self._round(around=around)
            truth = {n: one for n, one in exact.items() if _judges(one, self.seen[n])}
            if any(_off(one, self.seen[n]) > _ROUGH for n, one in truth.items()):
                # A fast path isn't taken where a mode is on: that's another program.
                watched = self._round(around=lambda *_: BaseTorchFunctionMode())
                return truth if self._gives(watched) else {}
            return truth
        return {}

    @cached_property
    def _digits(self) -> float:
        """How far eager is off where it computes in short dtypes, as under autocast."""
        off = 0.0  # of gradients and what else changes, too: one may be near by luck
        for n, truth in self.truth.items():
            exact, usual = truth.changes, self.seen[n].changes
            if [t.shape for t in exact] == [t.shape for t in usual]:
                off = max(off, correctness.relative_error(exact, usual))
            off = max(off, _off(truth, self.seen[n]))
        return min(off, _COARSEST) if off > _SHORT else 0.0

    def moved(self, n: int, roughly: bool = False) -> list[Outcome]:
        """Return what a call gives where last digits of its numbers are moved.

        If *roughly*, those of short dtypes, where eager computes in some.
        """
        share = self._digits if roughly else 0.0
        if share not in self._moved:
            self._moved[share] = []
            for turn in range(correctness.NUDGES):
                with suppress(Exception):
                    around = partial(correctness.nudged, self.trial.state, turn, share)
                    self._moved[share].append(self._round(around=around))
        return [one[n] for one in self._moved[share] if not one[n].error]

    def against(self, theirs: _Outcomes) -> list[Difference]:
        """Return where compiled code differs; of random values, only in form."""
        return [d for n, y in theirs.items() for d in self._against(n, y)]

    def _against(self, n: int, y: Outcome) -> Iterator[Difference]:
        yield from _raised(n, self.seen[n], y)
        if self.seen[n].error or y.error:
            return
        x, y = self.trial.paired(self.seen[n], y)
        forms = [*_forms(n, x, y)]
        for one in forms:
            if not (self.draws and one.field in self.varies):
                yield one
        told = {one.place for one in forms}
        for one in self._plain(n, x.plain, y.plain):
            if one.place not in told:
                yield one
        if _identical(x, y):
            return
        if self.draws:
            self.undecided.add(n + 1)
        else:
            if n not in self.truth:
                self._blind.add(n + 1)
            yield from self._values(n, x, y, self.truth.get(n))

    def _plain(
        self, n: int, x: dict[str, Any], y: dict[str, Any]
    ) -> Iterator[Difference]:
        """Yield which numbers and texts differ, times and rounding aside."""
        for place in dict.fromkeys((*x, *y)):
            if place in x and place in y and same_plain(x[place], y[place]):
                continue
            others = (self._others[n], *self.moved(n))
            others = [one.plain for one in others if not one.error]
            if all(same_plain(one.get(place), x.get(place)) for one in others):
                told = (
                    _in_order(side[place]) if place in side else "as before"
                    for side in (x, y)
                )
                yield Difference(n + 1, place, "values", *told)

    def against_drawn(self, again: _Compiling | None = None) -> list[Difference]:
        """Return where values differ that come of the same random numbers, if any do.

        *again* compiles in the same way as before; without it, that is `compile_apart`.
        """
        if not (self.undecided and self.steady):
            return []
        self.drawn = self._drawing_as_eager(again)
        found = []
        for n, y in self.drawn.items():
            if self.seen[n].error or y.error:
                continue
            x, truth = self.seen[n], self.truth.get(n)
            if truth and _off(truth, x) > _ROUGH:
                truth = None  # it draws others in float64
            x, y = self.trial.paired(x, y)
            differ = [] if _identical(x, y) else list(self._values(n, x, y, truth))
            rough = [d for d in differ if again or _apart(x, y, d.place) > _ROUGH]
            if rough or not differ:
                self.undecided.discard(n + 1)
            found += rough
        return found

    def seeds_itself(
        self, found: list[Difference], again: _Compiling | None = None
    ) -> bool:
        """Return whether all that was *found* are other random numbers, by design.

        So it is where a call seeds what it draws: each time eager draws the same, and
        compiled code does once it draws as eager.
        """
        bad = [one for one in found if not one.look]
        if not bad or any(one.field not in ("values", "nan/inf") for one in bad):
            return False
        if self.draws or not self._leaves_random_state():
            return False
        found = self.against(self._drawing_as_eager(again))
        self.seeded = all(one.look for one in found)
        return self.seeded

    def _drawing_as_eager(self, again: _Compiling | None) -> _Outcomes:
        """Return what a fresh compile gives that draws the numbers of eager."""
        compiling = again or partial(compile_apart, self.trial.compiled)
        with correctness.eager_numbers():
            return self.trial.round(compiling(), self.only)

    def _leaves_random_state(self) -> bool:
        """Return whether eager leaves random numbers elsewhere than it found them."""
        left = list[bool]()

        def run(call: Callable[[], Any]) -> Any:
            before, result = torch.get_rng_state(), call()
            left.append(not torch.equal(before, torch.get_rng_state()))
            return result

        self._round(run=run)
        return any(left)

    def _values(
        self, n: int, x: Outcome, y: Outcome, truth: Outcome | None
    ) -> Iterator[Difference]:
        return _values(n, x, y, truth, partial(self.moved, n), self.trial.most)

    def off(self, n: int, y: Outcome) -> tuple[float, float] | None:
        """Return how far results are from float64, of eager and of compiled."""
        x = self.seen[n]
        if x.error or y.error or self.draws or n not in self.truth:
            return None
        both = x, self.trial.paired(x, y)[1]
        return tuple(_largest(self.truth[n], side) for side in both)

    def notes(self) -> list[str]:
        """Return the limits of the judgement, for its reader."""
        if self.seeded:
            return [SEEDED]
        if self.drawn:
            return [
                "draws random numbers: a fresh compile that draws those of eager "
                "(fallback_random) was compared"
            ]
        if self.undecided and not self.steady:
            return ["each call gives another result, seed or not"]
        if self.undecided:
            return ["draws random numbers: results were not held against each other"]
        if not self._blind:
            return []
        those = f" for inputs {', '.join(map(str, sorted(self._blind)))}"
        those = those if len(self.seen) > 1 else ""
        return [f"float64 could not run{those}: the tolerance of the dtype decided"]


def _in_order(value: Any) -> str:
    """Return a value in words; of a dictionary in its order."""
    if isinstance(value, dict):
        items = (f"{k!r}: {reprlib.repr(v)}" for k, v in [*value.items()][:_SHOWN])
        return f"{{{', '.join(items)}{', …' * (len(value) > _SHOWN)}}}"
    return reprlib.repr(value)


def _judges(exact: Outcome, usual: Outcome) -> bool:
    """Return whether what came in float64 can judge what came without."""
    if exact.error or usual.error or exact.results.keys() != usual.results.keys():
        return False
    truths = exact.tensors.values()
    if [t.shape for t in truths] != [t.shape for t in usual.tensors.values()]:
        return False
    floats = [t for t in truths if t.is_floating_point() or t.is_complex()]
    wide = all(t.dtype in (torch.float64, torch.complex128) for t in floats)
    # What ends in float32 is a judge of what is rounded further, as under autocast.
    return wide or _off(exact, usual) > correctness.COARSER


def _off(truth: Outcome, x: Outcome) -> float:
    """Return how far all that is returned is off, as a share of its size."""
    return correctness.relative_error(truth.tensors.values(), x.tensors.values())


def _raised(n: int, x: Outcome, y: Outcome) -> Iterator[Difference]:
    if x.error and y.error:
        if not isinstance(y.error, type(x.error)):
            yield Difference(n + 1, y.stage, "exception", _said(x), _said(y))
    elif x.error or y.error:
        stage = x.stage if x.error else y.stage
        yield Difference(n + 1, stage, "raises", _said(x), _said(y))


def _said(one: Outcome) -> str:
    """Return the error in one line, without the folders of this machine."""
    if not one.error:
        return "runs"
    if promise := _torch.broken_promise(one.error).partition("\n")[0]:
        return f"{type(one.error).__name__}: {promise}"
    return re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "…/", one_line(one.error))


def _forms(n: int, x: Outcome, y: Outcome) -> Iterator[Difference]:
    """Yield what is not of one form: kinds, shapes, strides, aliases, what is there."""
    say = partial(Difference, n + 1)
    if x.kind != y.kind:
        yield say("output", "type", x.kind, y.kind)
    for a, b in ((x.results, y.results), (x.left, y.left)):
        yield from (say(p, "missing", _what(a[p]), "nothing") for p in a if p not in b)
        yield from (say(p, "extra", "nothing", _what(b[p])) for p in b if p not in a)
        for place in [p for p in a if p in b]:
            for told in _form(a[place], b[place]):
                yield say(place, *told)


def _form(x: Place, y: Place) -> Iterator[tuple[str, str, str]]:
    """Yield each field in which two places differ, the numbers of tensors aside."""
    apart = [name for name in x.form if x.form[name] != y.form.get(name)]
    for name in apart:
        if name != "alias" or "identity" not in apart:
            yield name, _told(x.form[name]), _told(y.form.get(name))
        if name in ("type", "shape"):
            return
    if x.form.keys() == {"type"} and not np.all(x.value == y.value):
        yield "values", repr(x.value), repr(y.value)


def _what(one: Place) -> str:
    fields = ("dtype", "shape") if "dtype" in one.form else ("type",)
    return " ".join(_told(one.form[name]) for name in fields)


def _told(field: Any) -> str:
    """Return the words for a field: ``float32``, ``(2, 3)``, ``true``."""
    if isinstance(field, torch.Size):
        return str(tuple(field))
    said = str(field).removeprefix("torch.")
    return said.lower() if isinstance(field, bool) else said


def _identical(x: Outcome, y: Outcome) -> bool:
    """Return whether all numbers that both sides have are equal in every bit."""
    pairs = [(x.tensors[p], y.tensors[p]) for p in x.tensors if p in y.tensors]
    pairs += [(x.left[p].value, y.left[p].value) for p in x.left if p in y.left]
    return all(
        a is b
        or (a is not None and b is not None and torch.equal(a, b) and not _signs(a, b))
        for a, b in pairs
    )


def _values(
    n: int,
    x: Outcome,
    y: Outcome,
    truth: Outcome | None = None,
    moved: Callable[[bool], list[Outcome]] = lambda _: [],
    most: int = 0,
) -> Iterator[Difference]:
    """Yield where numbers differ by more than rounding, or in the sign of a zero.

    *truth* is eager in float64, *moved* eager where last digits are moved, those of
    short dtypes if asked, and *most* how many numbers the largest tensor given has.
    """
    ours, theirs = x.tensors, y.tensors
    places = [
        place
        for place, a in ours.items()
        if place in theirs
        if (a.shape, a.dtype) == (theirs[place].shape, theirs[place].dtype)
    ]
    exact = truth.tensors if truth else {}
    if exact:
        sides = ([side[p] for p in ours] for side in (exact, ours))
        share = correctness.share_of(*sides)
    else:
        forms = [one.form for one in (*x.results.values(), *x.left.values())]
        dtypes = [form["dtype"] for form in forms if "dtype" in form]
        share = max(map(correctness.digits_of, dtypes), default=0.0)
    sides = ([side[p] for p in places] for side in (ours, theirs))
    for place, b in zip(places, correctness.in_order_of(*sides), strict=True):
        a, t = ours[place], exact.get(place)
        limit = max(share, correctness.share_of_sums(a, most))
        if not (right := correctness.right(a, b, t, limit)):
            near = [o.tensors[place] for o in moved(True) if place in o.tensors]
            right = correctness.right(a, b, t, limit, near)
        if not right:
            yield _wrong(n, place, a, b, t)
        elif count := _signs(a, b):
            zeros = "0 and -0, each in its place", "other signs"
            yield Difference(n + 1, place, "sign of zero", *zeros, count, a.numel())
    for place in [p for p in x.left if p in y.left]:
        a, b = x.left[place], y.left[place]
        if a.form != b.form or not (a.changed or b.changed):
            continue
        if a.known != b.known and not (a.changed and b.changed):
            continue  # the place of one has the other one: its aliases tell
        zero = torch.zeros_like(a.value if a.changed else b.value)
        old, new = (one.value if one.changed else zero for one in (a, b))
        t, judge = truth and truth.left.get(place), old
        if t and t.form["shape"] == a.form["shape"] and t.known == a.known:
            judge = t.value if t.changed else torch.zeros_like(zero)
        if not (right := correctness.right_change(old, new, judge, a.noise)):
            near = [o.left[place] for o in moved(False) if place in o.left]
            near = [one.value if one.changed else zero for one in near]
            right = correctness.right_change(old, new, judge, a.noise, near)
        if not right:
            yield _wrong(n, place, old, new, None if judge is old else judge)


def _signs(a: torch.Tensor, b: torch.Tensor) -> int:
    """Return how many zeros have another sign."""
    if not a.is_floating_point() or a.itemsize == 1:  # float8
        return 0
    zeros = (a == 0) & (b == 0)
    return int((zeros & (a.signbit() != b.signbit())).sum())


def _wrong(
    n: int, place: str, a: torch.Tensor, b: torch.Tensor, truth: torch.Tensor | None
) -> Difference:
    """Return a difference of values: the worst of them, how many, and how far."""
    digits = correctness.digits_of(a.dtype)
    if a.is_floating_point() and a.itemsize == 1:  # which has no arithmetic
        a, b = a.float(), b.float()
    t = a if truth is None else truth
    far, usual = distance(b, t), distance(a, t)
    least = 2 * float(torch.where(usual.isfinite(), usual, 0.0).max())
    wrong = (far > least + (digits * t.abs() if digits else 0.0)) & (a != b)
    name, finite = "values", a.isfinite() == b.isfinite()
    if not bool(finite.all()):
        name, wrong = "nan/inf", ~finite
    elif not bool(wrong.any()):
        wrong = a != b
    worst = int(far.masked_fill(~wrong, -1.0).flatten().argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(worst), a.shape)]
    at = f" at {index}" if a.dim() else ""
    ours, theirs = _shown(*(side.flatten()[worst].item() for side in (a, b)))
    off = [None if truth is None else size_of(truth, side)[1] for side in (a, b)]
    counted = int(wrong.sum()), a.numel()
    return Difference(n + 1, place, name, f"{ours}{at}", theirs, *counted, *off)


def _apart(x: Outcome, y: Outcome, place: str) -> float:
    """Return how far apart both sides are at a place, as a share of eager's size."""
    a, b = ((one.results.get(place) or one.left[place]).value for one in (x, y))
    if a is None or b is None:
        return math.inf
    return size_of(a, b)[0] / (size_of(a)[0] or 1e-300)


def _largest(x: Outcome, y: Outcome) -> float:
    """Return the largest absolute difference; infinite where the forms differ."""
    a, b = ([*one.tensors.values()] or one.changes for one in (x, y))
    if [t.shape for t in a] != [t.shape for t in b]:
        return math.inf
    return max((size_of(*both)[1] for both in zip(a, b, strict=True)), default=0.0)


def _shown(*values: float | complex | bool) -> list[str]:
    """Return numbers as a report has them: six digits, or all where those are equal."""
    short = [f"{n:.6g}" if isinstance(n, float) else str(n).lower() for n in values]
    return short if len({*short}) > 1 else [str(n).lower() for n in values]
