"""Holds what compiled calls give against eager's, place by place; float64 decides.

`judged` runs the calls of a model on both sides: in order, as a sequence that goes on
from one call to the next, and then each by itself.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch

from .differences import Difference
from .helpers import correctness
from .helpers.errors import one_line
from .helpers.session import compile_apart, tensors_of
from .seen import Bench, Left, Seen, Value, shown

if TYPE_CHECKING:
    from .patient import Call, Patient

_ROUNDS = 3
"""So often compiled code gives its answers: what is wrong may not always be."""
_ROUGH = 0.05
"""Above this share of its size, a difference of random results is no rounding."""
_DRAWN = ("values", "nan/inf", "shape", "missing", "extra")
"""What may differ from one random number to the next."""
_NEW = "only after the calls before it"


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


def differences(
    p: Patient,
    compiled: Callable[..., Any],
    *,
    calls: Sequence[Call] | None = None,
    again: Callable[[], Callable[..., Any]] | None = None,
) -> tuple[Difference, ...]:
    """Return all in which *compiled* is not what the model of *p* is, run eagerly.

    Both run *calls* (by default those of *p*) in order, from the same state and on
    copies; then each call by itself, where calls change what the next one finds.
    *again* compiles once more in the same way, where random numbers are drawn: without
    it, that is `compile_apart`.  The first difference is the first in time.
    """
    return judged(p, compiled, calls=calls, again=again).differences


def judged(
    p: Patient,
    compiled: Callable[..., Any],
    *,
    calls: Sequence[Call] | None = None,
    again: Callable[[], Callable[..., Any]] | None = None,
    running: Callable[[str], None] = lambda side: None,
) -> Judgement:
    """Hold *compiled* against the model of *p*: see `differences`.

    *running* is told what begins: ``eager``, or ``the build`` of compiled code.
    """
    calls = p.every_call if calls is None else calls
    bench = Bench(p, calls, p.fn, compiled)
    with correctness.seeded(0), bench.state:
        running("eager")
        usual = Eager(bench)
        numbers = [*range(len(bench.calls))] if usual.changes else []
        alone = [Eager(bench, n) for n in numbers[1:]]  # the first one is alone
        running("the build")
        theirs = [bench.round(compiled) for _ in range(_ROUNDS)]
        single = [bench.round(compiled, one.only) for one in alone]
        drawn = {}
        if usual.draws and usual.steady:
            compiling = again or partial(compile_apart, compiled)
            with correctness.eager_numbers():
                drawn = bench.round(compiling())
        running("eager")
        found = _in_rounds([list(usual.against(seen)) for seen in theirs])
        if drawn:
            found += usual.against_drawn(drawn)
        byself = [d for e, s in zip(alone, single, strict=True) for d in e.against(s)]
        off = tuple(usual.off(n, theirs[0][n]) for n in range(len(bench.calls)))
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
    """Return what differs in the sequence, and what in a call by itself alone."""
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
    """What eager gives in one round, in float64, and where last digits are moved."""

    def __init__(self, bench: Bench, only: int | None = None) -> None:
        self.bench, self.only, self.fn = bench, only, bench.p.eager
        self.seen = bench.round(self.fn, only)
        self.undecided = set[int]()

    @cached_property
    def changes(self) -> bool:
        """Whether a call of several changes what the next one finds."""
        changed = (x.change for seen in self.seen.values() for x in seen.left.values())
        held = {
            tuple(place for place in seen.left if not place.startswith("input "))
            for seen in self.seen.values()
        }
        written = any(change is not None for change in changed)
        return len(self.seen) > 1 and (written or len(held) > 1)

    @cached_property
    def draws(self) -> bool:
        """Whether random numbers are drawn."""
        return not self._gives(self.bench.round(self.fn, self.only, seed=1000))

    @cached_property
    def varies(self) -> set[str]:
        """The fields of a form that random numbers decide."""
        other = self.bench.round(self.fn, self.only, seed=1000)
        both = [(n, x, other[n]) for n, x in self.seen.items()]
        forms = [_forms(n, x, y) for n, x, y in both if not (x.error or y.error)]
        return {d.field for found in forms for d in found}

    @cached_property
    def steady(self) -> bool:
        """Whether it gives the same again with the same random numbers."""
        return self._gives(self.bench.round(self.fn, self.only))

    def _gives(self, other: dict[int, Seen]) -> bool:
        # Not to the bit: on a GPU, sums in another order differ in their last digits.
        for n, x in self.seen.items():
            if (x.error is None) != (other[n].error is None):
                return False
            found = [*_values(n, x, other[n], None, list)]
            if not x.error:
                found += _forms(n, x, other[n])
            if any(one.field in _DRAWN for one in found):
                return False
        return True

    @cached_property
    def truth(self) -> dict[int, Seen]:
        """What it gives in float64, of the calls where that can judge."""
        around = partial(correctness.in_float64, self.bench.state)
        with suppress(Exception):  # a dtype it cannot do is no reason to stop
            exact = self.bench.round(self.fn, self.only, around=around)
            return {n: one for n, one in exact.items() if _judges(one, self.seen[n])}
        return {}

    @cached_property
    def moved(self) -> list[dict[int, Seen]]:
        """What it gives where last digits of its numbers are moved."""
        state = self.bench.state

        def nudged(turn: int, reached: Any) -> AbstractContextManager:
            return _nudging(state, turn, reached)

        found = []
        for turn in range(correctness.NUDGES):
            with suppress(Exception):
                around = partial(nudged, turn)
                found.append(self.bench.round(self.fn, self.only, around=around))
        return found

    def against(self, theirs: dict[int, Seen]) -> Iterator[Difference]:
        """Yield where compiled code gives another thing; of random values, the form."""
        for n, y in theirs.items():
            x = self.seen[n]
            yield from _raised(n, x, y)
            if x.error or y.error:
                continue
            yield from (
                d
                for d in _forms(n, x, y)
                if not (self.draws and d.field in self.varies)
            )
            yield from self._lists(n, x, y)
            if not self.draws:
                yield from _values(n, x, y, self.truth.get(n), partial(self._moved, n))

    def _lists(self, n: int, x: Seen, y: Seen) -> Iterator[Difference]:
        """Yield where a list has other things, but for times and the like."""
        lost = [place for place in x.lists if x.lists[place] != y.lists.get(place)]
        again = self.bench.round(self.fn, self.only, seed=1000)[n] if lost else x
        for place in lost:
            if again.lists.get(place) == x.lists[place]:
                theirs = y.lists.get(place)
                now = "as before" if theirs is None else reprlib.repr(theirs)
                ours = reprlib.repr(x.lists[place])
                yield Difference(n + 1, place, "values", ours, now)

    def against_drawn(self, theirs: dict[int, Seen]) -> Iterator[Difference]:
        """Yield where values differ that come of the same random numbers."""
        for n, y in theirs.items():
            x, truth = self.seen[n], self.truth.get(n)
            if x.error or y.error:
                continue
            if truth and correctness.relative_error(*_numbers(truth, x)) > _ROUGH:
                truth = None  # it draws others in float64
            differ = list(_values(n, x, y, truth, partial(self._moved, n)))
            rough = [d for d in differ if _apart(x, y, d.place) > _ROUGH]
            yield from rough
            if differ and not rough:
                self.undecided.add(n + 1)

    def _moved(self, n: int) -> list[Seen]:
        return [one[n] for one in self.moved if not one[n].error]

    def off(self, n: int, y: Seen) -> tuple[float, float] | None:
        """Return how far results are from float64, of eager and of compiled."""
        x, truth = self.seen[n], self.truth.get(n)
        if self.draws or not truth or x.error or y.error:
            return None
        sides = []
        for side in (x, y):
            both = _numbers(truth, side)
            if [t.shape for t in both[0]] != [t.shape for t in both[1]]:
                return None
            far = (correctness.size_of(a, b)[1] for a, b in zip(*both, strict=True))
            sides.append(max(far, default=0.0))
        return sides[0], sides[1]

    def notes(self) -> Iterator[str]:
        """Yield what a reader of the judgement must know."""
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


def _judges(exact: Seen, usual: Seen) -> bool:
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


def _numbers(*seen: Seen) -> list[list[torch.Tensor]]:
    """Return the tensors of what was returned, of several that have the same places."""
    return [list(one.tensors.values()) for one in seen]


# ------------------------------------------------------- raised, form, alias, values


def _raised(n: int, x: Seen, y: Seen) -> Iterator[Difference]:
    if x.error and y.error:
        if not isinstance(y.error, type(x.error)):
            yield Difference(n + 1, y.stage, "exception", _said(x), _said(y))
    elif x.error or y.error:
        stage = x.stage if x.error else y.stage
        yield Difference(n + 1, stage, "raises", _said(x), _said(y))


def _said(one: Seen) -> str:
    """Return what was raised in one line, without the folders of this machine."""
    if not one.error:
        return "runs"
    return re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "…/", one_line(one.error))


def _forms(n: int, x: Seen, y: Seen) -> Iterator[Difference]:
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
        if x.value != y.value:
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


def _values(
    n: int, x: Seen, y: Seen, truth: Seen | None, moved: Callable[[], list[Seen]]
) -> Iterator[Difference]:
    """Yield where numbers differ by more than rounding, or in the sign of a zero."""
    if x.error or y.error:
        return
    yield from _results(n, x, y, truth, moved)
    for place in [p for p in x.left if p in y.left]:
        exact = truth.left.get(place) if truth else None
        yield from _change(n, place, x, y, exact, moved)


def _results(
    n: int, x: Seen, y: Seen, truth: Seen | None, moved: Callable[[], list[Seen]]
) -> Iterator[Difference]:
    ours, theirs = x.tensors, y.tensors
    places = [p for p in ours if p in theirs and _alike(ours[p], theirs[p])]
    exact = truth.tensors if truth else ours
    if truth:
        share = correctness.share_of(*([t[p] for p in ours] for t in (exact, ours)))
    else:
        share = correctness.coarsest(
            t.dtype for t in (*ours.values(), *x.left.values())
        )
    sorted_alike = correctness.in_order_of(
        *([t[p] for p in places] for t in (ours, theirs))
    )
    for place, b in zip(places, sorted_alike, strict=True):
        a, t = ours[place], exact[place] if truth else None
        if correctness.right(a, b, t, share):
            if count := _signs(a, b):
                zeros = "0 and -0, each in its place", "other signs"
                yield Difference(n + 1, place, "sign of zero", *zeros, count, a.numel())
            continue
        others = [o.tensors[place] for o in moved() if place in o.tensors]
        if not correctness.right(a, b, t, share, others):
            yield _wrong(n, place, a, b, t)


def _change(
    n: int,
    place: str,
    x: Seen,
    y: Seen,
    exact: Left | None,
    moved: Callable[[], list[Seen]],
) -> Iterator[Difference]:
    """Yield that a tensor which is left behind differs, if it does."""
    a, b = x.left[place], y.left[place]
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return
    if a.known != b.known and (a.change is None or b.change is None):
        return  # the place of one has the other one: its aliases tell
    if a.change is None and b.change is None:
        return
    known = a.change if a.change is not None else b.change
    zero = torch.zeros_like(known)
    old, new = (zero if one.change is None else one.change for one in (a, b))
    judge = old
    if exact is not None and exact.shape == a.shape and exact.known == a.known:
        judge = torch.zeros_like(zero, dtype=exact.dtype)
        judge = judge if exact.change is None else exact.change
    if correctness.right_change(old, new, judge, a.noise):
        return
    others = [o.left[place].change for o in moved() if place in o.left]
    others = [zero if one is None else one for one in others]
    if not correctness.right_change(old, new, judge, a.noise, others):
        yield _wrong(n, place, old, new, None if judge is old else judge)


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
    judge = a if truth is None else truth
    if a.dtype == torch.bool or not (a.is_floating_point() or a.is_complex()):
        wrong, far = a != b, (a != b).double()
    else:
        wide = torch.complex128 if a.is_complex() else torch.float64
        x, y, t = (side.to(wide) for side in (a, b, judge))
        far = (y - t).abs().nan_to_num(math.inf, math.inf)
        far = far.masked_fill((y == t) | (y.isnan() & t.isnan()), 0.0)
        usual = (x - t).abs().nan_to_num(math.inf, math.inf)
        usual = usual.masked_fill((x == t) | (x.isnan() & t.isnan()), 0.0)
        finite = usual[usual.isfinite()]
        digits = 2 * float(finite.max()) if finite.numel() else 0.0
        wrong = (far > correctness.digits_of(a.dtype) * t.abs() + digits) & ~(x == y)
        wrong = wrong if bool(wrong.any()) else x != y
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
        off = [correctness.size_of(truth, side)[1] for side in (a, b)]
    counted = int(wrong.sum()), a.numel()
    return Difference(n + 1, place, name, f"{ours}{at}", theirs, *counted, *off)


def _apart(x: Seen, y: Seen, place: str) -> float:
    """Return how far apart both sides are at a place, as a share of eager's size."""
    if place in x.tensors:
        a, b = x.tensors[place], y.tensors[place]
    else:
        a, b = x.left[place].change, y.left[place].change
        if a is None or b is None:
            return math.inf
    return correctness.size_of(a, b)[0] / (correctness.size_of(a)[0] or 1e-300)
