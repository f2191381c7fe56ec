"""Does compiled code give eager's answers?  Place by place; float64 decides.

`differences` is for two functions, `judged` for one program in two ways, and
`agreement` for `compare`: a timing of a wrong answer is worth nothing.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from . import _torch, correctness
from .capture import each_call
from .correctness import size_of
from .differences import Difference
from .errors import one_line
from .outcomes import Call, Left, Outcome, Trial, Value, checked
from .session import compile_apart, tensors_of

_ROUNDS = 3
"""So often compiled code gives its answers: what is wrong may not always be."""
_ROUGH = 0.05
"""Above this share of its size, a difference of random results is no rounding."""
_DRAWN = ("values", "nan/inf", "shape", "missing", "extra")
"""What may differ from one random number to the next."""
_NEW = "only after the calls before it"
_DIFFER = "results differ: the speed-up is that of another computation"
CHANGES_DIFFER = "what is returned agrees; a gradient, or what else changes, differs"
_Compiling = Callable[[], Callable[..., Any]]


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
    trial = Trial(pairs, eager, compiled, gradients=gradients, detail="values")
    with correctness.seeded(), trial.state:
        usual = Eager(trial)
        for one in usual.seen.values():
            if one.error:
                raise one.error
        theirs = trial.round(compiled)
        if all(_identical(*trial.paired(usual.seen[n], y)) for n, y in theirs.items()):
            return ()
        again = None if _torch.is_compiled(compiled) else lambda: compiled
        found = [*usual.against(theirs), *usual.against_drawn(again)]
    return tuple(d for d in found if not d.look)


# ------------------------------------------------------------------- for compare


@dataclass(frozen=True)
class Agreement:
    """The answer that running both sides once gave.

    *matches* is None when it was not decided, because the function draws random
    numbers or two different computations are raced.  Errors are the largest
    absolute differences of what is returned: between the sides, and of each from
    float64.
    """

    matches: bool | None
    max_error: float = 0.0
    error64: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()


NOT_ASKED = Agreement(None, notes=("two different computations, on purpose",))


def agreement(
    trial: Trial,
    first: Outcome,
    rtol: float | None = None,
    atol: float | None = None,
) -> Agreement:
    """Compare *first*, which the compiled side gave, with eager, and both with float64.

    With *rtol* or *atol*, what is returned must agree within them, and without them as
    ``torch.testing.assert_close`` has it for the dtype, or else be about as near to
    float64 as eager is.  Where random numbers are drawn, another compile is compared.
    """
    asked = rtol is not None or atol is not None
    usual = Eager(trial, 0, (rtol or 0.0, atol or 0.0) if asked else None)
    x, notes = checked("eager", usual.seen[0]), []
    if not usual.draws:
        found = list(usual.against({0: first}))
        if any(one.changed for p, one in x.left.items() if p.startswith("input ")):
            notes.append("changes its inputs: each timed call sees other numbers")
        if not usual.truth and not asked and not _identical(*trial.paired(x, first)):
            notes.append("float64 could not run: the tolerance of the dtype decided")
    elif not usual.steady:
        return Agreement(None, notes=("each call gives another result, seed or not",))
    elif not _torch.is_compiled(trial.compiled):
        says = "draws random numbers: results were not held against each other"
        return Agreement(None, notes=(says,))
    else:
        usual.draw()
        first = checked("compiled", usual.drawn[0])
        found = [*usual.against(usual.drawn), *usual.against_drawn()]
        notes.append(
            "draws random numbers: a fresh compile that draws those of eager "
            "(fallback_random) was compared"
        )
    x, y = trial.paired(x, first)
    if bad := [d for d in found if not d.look]:
        same = x.tensors and not usual.draws
        same = same and all(d.place in {**x.left, **y.left} for d in bad)
        notes.append(CHANGES_DIFFER if same else _DIFFER)
    matches = False if bad else None if usual.undecided else True
    return Agreement(matches, _largest(x, y), usual.off(0, first), tuple(notes))


# ------------------------------------------------------------------ for a check-up


@dataclass(frozen=True)
class Judgement:
    """What differs, how far each call is off, and what could not be decided.

    *off* has, for each call, the largest distance of a result from float64, of eager
    and of compiled; None where float64 could not run, or nothing came.
    """

    differences: tuple[Difference, ...]
    off: tuple[tuple[float, float] | None, ...]
    undecided: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def matches(self) -> bool | None:
        """Whether all that counts is eager's; None where that was not decided."""
        if any(not one.look for one in self.differences):
            return False
        return None if self.undecided else True


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
    begins: ``eager``, or ``the build`` of compiled code.  The first difference is the
    first in time.
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
        usual.draw(again)
        running("eager")
        found = _in_rounds([list(usual.against(seen)) for seen in theirs])
        found += usual.against_drawn()
        byself = [d for e, s in zip(alone, single, strict=True) for d in e.against(s)]
        off = tuple(usual.off(n, theirs[0][n]) for n in range(len(trial.calls)))
        notes = tuple(usual.notes())
    undecided = tuple(sorted(usual.undecided))
    return Judgement(_together(found, byself, bool(alone)), off, undecided, notes)


def _in_rounds(rounds: list[list[Difference]]) -> list[Difference]:
    """Return each difference once, with how often it was seen."""
    first: dict[Any, Difference] = {}
    seen: dict[Any, int] = {}
    for one in rounds:
        for key in dict.fromkeys((d.call, d.where) for d in one):
            seen[key] = seen.get(key, 0) + 1
        for d in one:
            first.setdefault((d.call, d.where), d)
    often = {key: f"in {n} of {len(rounds)} rounds" for key, n in seen.items()}
    return [
        d if seen[key] == len(rounds) else replace(d, note=often[key])
        for key, d in sorted(first.items(), key=lambda item: item[0][0])
    ]


def _together(
    found: list[Difference], alone: list[Difference], asked: bool
) -> tuple[Difference, ...]:
    """Return the differences in the sequence, and those in a call by itself."""
    known = {(d.call, d.where) for d in found}
    single = {(d.call, d.where) for d in alone}
    if asked:
        found = [
            replace(d, note="; ".join(filter(None, (d.note, _NEW))))
            if d.call > 1 and (d.call, d.where) not in single
            else d
            for d in found
        ]
    more = [replace(d, note="called by itself") for d in alone]
    found += [d for d in more if (d.call, d.where) not in known]
    return tuple(sorted(found, key=lambda d: (d.look, d.call)))


class Eager:
    """What eager gives in one round, in float64, and where last digits are moved.

    *tolerance*, relative and absolute, decides alone where it is given.
    """

    def __init__(
        self,
        trial: Trial,
        only: int | None = None,
        tolerance: tuple[float, float] | None = None,
    ) -> None:
        self.trial, self.only, self.tolerance = trial, only, tolerance
        self.seen = self._round()
        self.undecided = set[int]()
        self.drawn: dict[int, Outcome] = {}
        """What a compile gave that draws eager's random numbers."""

    def _round(self, **how: Any) -> dict[int, Outcome]:
        return self.trial.round(self.trial.eager, self.only, **how)

    @cached_property
    def changes(self) -> bool:
        """Whether a call of several changes what the next one finds."""
        changed = (x.changed for seen in self.seen.values() for x in seen.left.values())
        held = {
            tuple(place for place in seen.left if not place.startswith("input "))
            for seen in self.seen.values()
        }
        return len(self.seen) > 1 and (any(changed) or len(held) > 1)

    @cached_property
    def _others(self) -> dict[int, Outcome]:
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

    def _gives(self, other: dict[int, Outcome]) -> bool:
        # Not to the bit: on a GPU, sums in another order differ in their last digits.
        for n, x in self.seen.items():
            if (x.error is None) != (other[n].error is None):
                return False
            found = [*_Numbers(n, x, other[n]).differ()]
            if not x.error:
                found += _forms(n, x, other[n])
            if any(one.field in _DRAWN for one in found):
                return False
        return True

    @cached_property
    def truth(self) -> dict[int, Outcome]:
        """What it gives in float64, of the calls where that can judge."""
        around = partial(correctness.in_float64, self.trial.state)
        # A dtype it cannot do is no reason to stop, nor what is compiled inside.
        with suppress(Exception), torch.compiler.set_stance("force_eager"):
            exact = self._round(around=around)
            return {n: one for n, one in exact.items() if _judges(one, self.seen[n])}
        return {}

    @cached_property
    def moved(self) -> list[dict[int, Outcome]]:
        """What it gives where last digits of its numbers are moved."""
        found = []
        for turn in range(correctness.NUDGES):
            with suppress(Exception):
                around = partial(_nudging, self.trial.state, turn)
                found.append(self._round(around=around))
        return found

    def draw(self, again: _Compiling | None = None) -> None:
        """Run a compile that draws as eager does, where random numbers are drawn."""
        if self.draws and self.steady:
            compiling = again or partial(compile_apart, self.trial.compiled)
            with correctness.eager_numbers():
                self.drawn = self.trial.round(compiling(), self.only)

    def against(self, theirs: dict[int, Outcome]) -> Iterator[Difference]:
        """Yield where compiled code differs; of random values, only in form."""
        for n, y in theirs.items():
            yield from _raised(n, self.seen[n], y)
            if self.seen[n].error or y.error:
                continue
            x, y = self.trial.paired(self.seen[n], y)
            yield from (
                d
                for d in _forms(n, x, y)
                if not (self.draws and d.field in self.varies)
            )
            yield from self._lists(n, x, y)
            if not self.draws:
                yield from self._values(n, x, y, self.truth.get(n))

    def _lists(self, n: int, x: Outcome, y: Outcome) -> Iterator[Difference]:
        """Yield where a list has other things, but for times and the like."""
        lost = [place for place in x.lists if x.lists[place] != y.lists.get(place)]
        again = self._others[n] if lost else x
        for place in lost:
            if again.lists.get(place) == x.lists[place]:
                theirs = y.lists.get(place)
                now = "as before" if theirs is None else reprlib.repr(theirs)
                ours = reprlib.repr(x.lists[place])
                yield Difference(n + 1, place, "values", ours, now)

    def against_drawn(self, again: _Compiling | None = None) -> Iterator[Difference]:
        """Yield where values differ that come of the same random numbers."""
        if not self.drawn:
            self.draw(again)
        for n, y in self.drawn.items():
            if self.seen[n].error or y.error:
                continue
            x, truth = self.seen[n], self.truth.get(n)
            if truth and correctness.relative_error(*_numbers(truth, x)) > _ROUGH:
                truth = None  # it draws others in float64
            x, y = self.trial.paired(x, y)
            differ = list(self._values(n, x, y, truth))
            exact = self.tolerance or again
            rough = [d for d in differ if exact or _apart(x, y, d.place) > _ROUGH]
            yield from rough
            if differ and not rough:
                self.undecided.add(n + 1)

    def _values(
        self, n: int, x: Outcome, y: Outcome, truth: Outcome | None
    ) -> Iterator[Difference]:
        def moved() -> list[Outcome]:
            return [one[n] for one in self.moved if not one[n].error]

        return _Numbers(n, x, y, truth, moved, self.tolerance).differ()

    def off(self, n: int, y: Outcome) -> tuple[float, float] | None:
        """Return how far results are from float64, of eager and of compiled."""
        x, truth = self.seen[n], self.truth.get(n)
        if self.draws or not truth or x.error or y.error:
            return None
        _, y = self.trial.paired(x, y)
        return _largest(truth, x), _largest(truth, y)

    def notes(self) -> Iterator[str]:
        """Yield the limits of the judgement, for its reader."""
        if self.draws and not self.steady:
            self.undecided.update(n + 1 for n in self.seen)
            yield "each call gives another result, seed or not"
        elif self.draws:
            yield (
                "draws random numbers: their values are those of a compile that draws "
                "as eager does (fallback_random); the rest is that of the usual one"
            )
        blind = [
            n + 1 for n, x in self.seen.items() if not (x.error or n in self.truth)
        ]
        if blind and not self.draws:
            those = ", ".join(map(str, blind))
            yield (
                f"float64 could not run for inputs {those}: the tolerance of the dtype "
                "decided"
            )


@contextmanager
def _nudging(state: Any, turn: int, reached: Any) -> Iterator[None]:
    fn, calls = reached
    correctness.nudge(correctness.kept(state, tensors_of(fn, calls)), turn)
    yield


def _judges(exact: Outcome, usual: Outcome) -> bool:
    """Return whether what came in float64 can judge what came without."""
    if exact.error or usual.error or exact.results.keys() != usual.results.keys():
        return False
    truths, results = _numbers(exact, usual)
    if [t.shape for t in truths] != [t.shape for t in results]:
        return False
    floats = [t for t in truths if t.is_floating_point() or t.is_complex()]
    wide = all(t.dtype in (torch.float64, torch.complex128) for t in floats)
    # What ends in float32 is a judge of what is rounded further, as under autocast.
    return wide or correctness.relative_error(truths, results) > correctness.COARSER


def _numbers(*seen: Outcome) -> list[list[torch.Tensor]]:
    """Return the tensors of what was returned, of several that have the same places."""
    return [list(one.tensors.values()) for one in seen]


# ------------------------------------------------------- raised, form, alias, values


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
    return re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "…/", one_line(one.error))


def _forms(n: int, x: Outcome, y: Outcome) -> Iterator[Difference]:
    """Yield what is not of one form: kinds, shapes, strides, aliases, what is there."""
    say = partial(Difference, n + 1)
    if x.kind != y.kind:
        yield say("output", "type", x.kind, y.kind)
    for a, b, words in ((x, y, ("missing", 0)), (y, x, ("extra", 1))):
        name, there = words
        for one, other in ((a.results, b.results), (a.left, b.left)):
            for place in [p for p in one if p not in other]:
                sides = (_what(one[place]), "nothing")
                yield say(place, name, *(sides[::-1] if there else sides))
    for place in [p for p in x.results if p in y.results]:
        for name, ours, theirs in _form(x.results[place], y.results[place]):
            yield say(place, name, ours, theirs)
    for place in [p for p in x.left if p in y.left]:
        a, b = x.left[place], y.left[place]
        if a.dtype != b.dtype:
            yield say(place, "dtype", _short(a.dtype), _short(b.dtype))
        if a.shape != b.shape:
            yield say(place, "shape", _size(a.shape), _size(b.shape))


def _form(x: Value, y: Value) -> Iterator[tuple[str, str, str]]:
    """Yield each field in which two places of a result differ, values aside."""
    if x.kind != y.kind:
        yield "type", x.kind, y.kind
        return
    if not isinstance(x.value, torch.Tensor):
        if not np.all(x.value == y.value):
            yield "values", repr(x.value), repr(y.value)
        return
    if x.value.dtype != y.value.dtype:
        yield "dtype", _short(x.value.dtype), _short(y.value.dtype)
    if x.value.shape != y.value.shape:
        yield "shape", _size(x.value.shape), _size(y.value.shape)
        return
    if x.requires_grad != y.requires_grad:
        yield "requires_grad", shown(x.requires_grad), shown(y.requires_grad)
    if x.itself != y.itself:
        yield "identity", *(f"is {v.itself}" if v.itself else "new" for v in (x, y))
    elif x.shares != y.shares:
        named = (f"shares {', '.join(v.shares)}" if v.shares else "own" for v in (x, y))
        yield "alias", *named
    if x.stride != y.stride and not (x.contiguous and y.contiguous):
        yield "stride", str(x.stride), str(y.stride)


def _what(one: Value | Left) -> str:
    if isinstance(one, Left):
        return f"{_short(one.dtype)} {_size(one.shape)}"
    if isinstance(one.value, torch.Tensor):
        return f"{_short(one.value.dtype)} {_size(one.value.shape)}"
    return one.kind


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _size(shape: torch.Size) -> str:
    return str(tuple(shape))


def _identical(x: Outcome, y: Outcome) -> bool:
    """Return whether both sides are equal in form, and in every bit."""
    if x.error or y.error or x.lists != y.lists or any(_forms(0, x, y)):
        return False
    pairs = [(x.tensors[place], y.tensors[place]) for place in x.tensors]
    pairs += [(x.left[place].change, y.left[place].change) for place in x.left]
    return all(
        a is b or (a is not None and b is not None and torch.equal(a, b))
        for a, b in pairs
    )


@dataclass
class _Numbers:
    """The numbers that one call gives on both sides.

    *truth* is eager in float64, and *moved* eager where last digits are moved.
    """

    n: int
    x: Outcome
    y: Outcome
    truth: Outcome | None = None
    moved: Callable[[], Iterable[Outcome]] = list
    tolerance: tuple[float, float] | None = None

    def differ(self) -> Iterator[Difference]:
        """Yield where they differ by more than rounding, or in the sign of a zero."""
        if not (self.x.error or self.y.error):
            yield from self._results()
            for place in [p for p in self.x.left if p in self.y.left]:
                yield from self._change(place)

    def _results(self) -> Iterator[Difference]:
        ours, theirs = self.x.tensors, self.y.tensors
        places = [p for p in ours if p in theirs and _alike(ours[p], theirs[p])]
        exact = self.truth.tensors if self.truth else {}
        if exact:
            sides = ([side[p] for p in ours] for side in (exact, ours))
            share = correctness.share_of(*sides)
        else:
            dtypes = (t.dtype for t in (*ours.values(), *self.x.left.values()))
            share = correctness.coarsest(dtypes)
        sides = ([side[p] for p in places] for side in (ours, theirs))
        for place, b in zip(places, correctness.in_order_of(*sides), strict=True):
            a, t = ours[place], exact.get(place)
            if self.tolerance:
                right = correctness.close(a, theirs[place], *self.tolerance)
            elif not (right := correctness.right(a, b, t, share)):
                near = [o.tensors[place] for o in self.moved() if place in o.tensors]
                right = correctness.right(a, b, t, share, near)
            if not right:
                yield _wrong(self.n, place, a, b, t)
            elif count := _signs(a, b):
                zeros = "0 and -0, each in its place", "other signs"
                how_many = count, a.numel()
                yield Difference(self.n + 1, place, "sign of zero", *zeros, *how_many)

    def _change(self, place: str) -> Iterator[Difference]:
        """Yield that a tensor which is left behind differs, if it does."""
        a, b = self.x.left[place], self.y.left[place]
        if (a.shape, a.dtype) != (b.shape, b.dtype) or not (a.changed or b.changed):
            return
        if a.known != b.known and not (a.changed and b.changed):
            return  # the place of one has the other one: its aliases tell
        zero = torch.zeros_like(a.change if a.changed else b.change)
        old, new = (zero if one.change is None else one.change for one in (a, b))
        exact, judge = self.truth and self.truth.left.get(place), old
        if exact and exact.shape == a.shape and exact.known == a.known:
            judge = torch.zeros_like(zero, dtype=exact.dtype)
            judge = judge if exact.change is None else exact.change
        if self.tolerance:
            right = size_of(old, new)[0] <= a.noise
            right = right or correctness.close(old, new, *self.tolerance)
        elif not (right := correctness.right_change(old, new, judge, a.noise)):
            near = [o.left[place].change for o in self.moved() if place in o.left]
            near = [zero if one is None else one for one in near]
            right = correctness.right_change(old, new, judge, a.noise, near)
        if not right:
            yield _wrong(self.n, place, old, new, None if judge is old else judge)


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.shape, a.dtype) == (b.shape, b.dtype)


def _signs(a: torch.Tensor, b: torch.Tensor) -> int:
    """Return how many zeros have another sign."""
    if not a.is_floating_point() or a.itemsize == 1:
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
    if a.dtype == torch.bool or not (a.is_floating_point() or a.is_complex()):
        wrong, far = a != b, (a != b).double()
    else:
        far, usual = _distance(b, t), _distance(a, t)
        finite = usual[usual.isfinite()]
        least = 2 * float(finite.max()) if finite.numel() else 0.0
        wrong = (far > digits * t.abs() + least) & ~(a == b)
        wrong = wrong if bool(wrong.any()) else a != b
    name = "values"
    if a.is_floating_point() and bool((a.isfinite() != b.isfinite()).any()):
        name, wrong = "nan/inf", a.isfinite() != b.isfinite()
        far = wrong.double()
    worst = int(far.flatten().argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(worst), a.shape)]
    at = f" at {index}" if a.dim() else ""
    ours, theirs = (shown(side.flatten()[worst].item()) for side in (a, b))
    off = [None, None]
    if truth is not None:
        off = [size_of(truth, side)[1] for side in (a, b)]
    counted = int(wrong.sum()), a.numel()
    return Difference(n + 1, place, name, f"{ours}{at}", theirs, *counted, *off)


def _distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return how far apart each number is; infinite for a NaN on one side only."""
    wide = torch.complex128 if x.is_complex() else torch.float64
    x, y = x.to(wide), y.to(wide)
    far = (x - y).abs().nan_to_num(math.inf, math.inf)
    return far.masked_fill((x == y) | (x.isnan() & y.isnan()), 0.0)


def _apart(x: Outcome, y: Outcome, place: str) -> float:
    """Return how far apart both sides are at a place, as a share of eager's size."""
    if place in x.tensors:
        a, b = x.tensors[place], y.tensors[place]
    else:
        a, b = x.left[place].change, y.left[place].change
        if a is None or b is None:
            return math.inf
    return size_of(a, b)[0] / (size_of(a)[0] or 1e-300)


def _largest(x: Outcome, y: Outcome) -> float:
    """Return the largest absolute difference of results, or of what else changes.

    It's infinite where the forms differ.
    """
    a, b = (
        [*one.tensors.values()] or [c.change for c in one.left.values() if c.changed]
        for one in (x, y)
    )
    if [t.shape for t in a] != [t.shape for t in b]:
        return math.inf
    return max((size_of(*both)[1] for both in zip(a, b, strict=True)), default=0.0)


def shown(value: float | complex | bool) -> str:
    """Return a number as it is written in a report."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
