"""Correctness before speed: do two functions give the same answer?

A timing of a wrong answer is worth nothing, so ``compare`` asks this first.  What a
call gave is what it returned and what it changed: inputs, parameters, gradients, the
state of an optimizer.  The judge is the same function in float64, since compiled code
is often nearer to the truth than eager, not farther.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
import torch
from torch.utils import _pytree as pytree

from helpers import _torch
from helpers.errors import InputError
from helpers.session import compile_apart, restored, tensors_of
from helpers.tensors import clone, tensors

_PIECE = 1 << 22  # elements compared at a time, so that it takes little memory
_RTOL = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6}
_ROUGH = 0.05
"""Above this share of its size, a difference of random results is no rounding."""

_Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Agreement:
    """Whether both sides gave the same answer.

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
_DIFFER = "results differ: the speed-up is that of another computation"


def agreement(
    setting: Setting,
    eager: Callable,
    compiled: Callable,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> Agreement:
    """Return whether *compiled* gives in this *setting* the answer of *eager*.

    With *rtol* or *atol*, what is returned must agree within them, and without them as
    ``torch.testing.assert_close`` has it for the dtype, or else be about as near to
    float64 as eager is (`_near`).  *seed* is that of the random numbers.
    """
    answer = setting.outcome("eager", eager, seed)
    # Not to the bit: on a GPU, sums in another order differ in their last digits.
    if not _matches(answer, setting.outcome("eager", eager, seed + 1)):
        return _with_random_numbers(setting, eager, compiled, answer, seed)
    other = setting.outcome("compiled", compiled, seed)
    reference = _in_float64(setting, eager, answer, seed)
    matches = _matches(answer, other, reference, rtol, atol)
    max_error, error64, notes = _largest(answer, other), None, []
    if answer.inputs_changed:
        notes.append("changes its inputs: each timed call sees other numbers")
    if reference is not None:
        error64 = _largest(reference, answer), _largest(reference, other)
    elif rtol is None and atol is None and max_error > 0:
        notes.append("float64 could not run: the tolerance of the dtype decided")
    if not matches:
        notes.append(_DIFFER)
    return Agreement(matches, max_error, error64, tuple(notes))


def _with_random_numbers(
    setting: Setting, eager: Callable, compiled: Callable, answer: Outcome, seed: int
) -> Agreement:
    """Compare a fresh compile that draws eager's numbers, where there can be one."""
    if not _matches(answer, setting.outcome("eager", eager, seed)):
        return Agreement(None, notes=("each call gives another result, seed or not",))
    note = "draws random numbers: "
    if not _torch.is_compiled(compiled):
        note += "results were not held against each other"
        return Agreement(None, notes=(note,))
    with torch._inductor.config.patch(fallback_random=True):
        other = setting.outcome("compiled", compile_apart(compiled), seed)
    note += "a fresh compile that draws those of eager (fallback_random) was compared"
    max_error, pairs = _largest(answer, other), _pairs(answer, other)
    if pairs is None or any(_size(x, y)[0] > _ROUGH * _size(x)[0] for x, y in pairs):
        return Agreement(False, max_error, notes=(note, _DIFFER))
    # Smaller differences may be rounding, which no float64 of the same numbers judges.
    return Agreement(_matches(answer, other) or None, max_error, notes=(note,))


# --- one call, from the same state each time -----------------------------------


def device_of(inputs: Any, *functions: Any) -> str:
    """Return ``cpu`` or ``cuda``: where inputs and parameters are.

    Raises InputError when they are on more than one device, or on one that no
    clock here waits for.
    """
    modules = [f for f in functions if isinstance(f, torch.nn.Module)]
    devices = {t.device for t in tensors((inputs, modules))}
    if len(devices) > 1:
        raise InputError(
            f"inputs and parameters are on {len(devices)} devices "
            f"({', '.join(sorted(map(str, devices)))}): move them to one with .to()"
        )
    device = devices.pop() if devices else torch.device("cpu")
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        raise InputError(
            f"first make it the current GPU: torch.cuda.set_device({device.index})"
        )
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"{device.type} cannot be timed here: use 'cpu' or 'cuda'")
    return device.type


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's random numbers; put the reader's state back at the end."""
    cuda = torch.cuda.is_available()  # to name the GPU, or torch warns of several
    with torch.random.fork_rng([torch.cuda.current_device()] if cuda else []):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True)
class Outcome:
    """What one call returned, and what it changed of the tensors that it can reach."""

    results: list[torch.Tensor]
    changes: list[torch.Tensor]
    """New minus old value of each tensor that changed, and all of each new one."""
    dtypes: set[torch.dtype]
    """Of the results, and of all tensors that the function and its inputs hold."""
    inputs_changed: bool


class Setting:
    """What both sides are called with: copies of the inputs, and a state to go back to.

    They share it, so that each call finds the same numbers in the same memory.
    """

    def __init__(
        self,
        functions: tuple[Callable, ...],
        inputs: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
    ) -> None:
        self.inputs, self.kwargs = clone((inputs, dict(kwargs or {})))
        self.state = restored(*functions, self.inputs, self.kwargs, setup)
        self._setup = setup

    def call(self, function: Callable) -> Callable[[], Any]:
        """Put the state back, and return the call of *function* without arguments."""
        with self.state:
            pass
        inputs = self.inputs
        if self._setup is not None and (given := self._setup()) is not None:
            inputs = given if isinstance(given, tuple) else (given,)
        return partial(function, *inputs, **self.kwargs)

    def outcome(
        self,
        side: str,
        function: Callable,
        seed: int,
        run: Callable[[Callable[[], Any]], Any] = lambda call: call(),
    ) -> Outcome:
        """Return what one call of *function* gives, from the state put back.

        *run* runs the call it is given.  Raises InputError, in which *side* names the
        function, when it fails or nothing shows what it computes.
        """
        with explained(side), seeded(seed):
            call = self.call(function)
            reachable = tensors_of(call)
            results = _values(run(call))
        if any(t.is_meta for t in results):
            raise InputError("a tensor on meta has no numbers: make it on the cpu")
        old = {id(tensor): value for tensor, _, value in self.state.values}
        # In the order of the state, which both sides share, and then what is new.
        place = {key: position for position, key in enumerate(old)}
        after = sorted(tensors_of(call), key=lambda t: place.get(id(t), len(place)))
        not_comparable = {id(t) for t in reachable} - old.keys()
        after = [t for t in after if id(t) not in not_comparable]
        after = [t for t in after if t.layout is torch.strided]
        changes = {id(t): _change(t.detach(), old.get(id(t))) for t in after}
        changes = {key: change for key, change in changes.items() if change is not None}
        if not results and not changes:
            raise InputError(
                f"the {side} function returned no tensor or number, and changed none, "
                "so nothing shows that both sides compute the same: return a result"
            )
        return Outcome(
            results,
            list(changes.values()),
            dtypes={t.dtype for t in (*after, *results)},
            inputs_changed=any(
                id(t) in changes for t in tensors((self.inputs, self.kwargs))
            ),
        )


def _values(result: Any) -> list[torch.Tensor]:
    """Return copies of the tensors of *result*, and its numbers as tensors."""
    values = []
    for leaf in pytree.tree_leaves(result):
        if isinstance(leaf, (int, float, complex)):
            values.append(torch.tensor(leaf))
        else:  # copies, for a later call may overwrite what it returned
            values += [t.detach().to_dense().clone() for t in tensors(leaf)]
    return values


def _change(new: torch.Tensor, old: torch.Tensor | None) -> torch.Tensor | None:
    if old is None or old.shape != new.shape:
        return new.clone()
    old = old.to(new.dtype)
    if _size(new, old)[1] == 0:
        return None
    return new.clone() if new.dtype == torch.bool else new - old


_FAILED = {
    "eager": (
        "the eager function raised",
        "Call it by itself first and mend that; there is nothing to time yet.",
    ),
    "compiled": (
        "the compiled function raised",
        "Eager ran, so compiling failed: `python -m helpers doctor` checks the "
        "compiler and triton, and graphs(fn, *inputs) shows how far Dynamo came.",
    ),
    "again": (
        "a function failed when it was called again:",
        "If it uses something up, such as room in a cache, that comes back only before "
        "each block of calls: pass setup=f, which makes it anew.",
    ),
}


@contextmanager
def explained(call: str) -> Iterator[None]:
    """Turn what a *call* raises (a key of _FAILED) into an InputError with advice."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if promise := _torch.broken_promise(error):
            raise InputError(promise) from error
        what, advice = _FAILED[call]
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{what} {type(error).__name__}: {first}\n{advice}") from error


# --- the judge: float64 --------------------------------------------------------


def _in_float64(
    setting: Setting, eager: Callable, answer: Outcome, seed: int
) -> Outcome | None:
    """Return what *eager*, which gave *answer*, gives in float64; None if it cannot.

    All floating-point tensors that it can reach, also in a closure, are made float64
    where they are, for this call: the state that is put back has them as they were.
    """

    def run(call: Callable[[], Any]) -> Any:
        narrow = [t for t in tensors_of(call) if _wide(t.dtype) != t.dtype]
        memory = psutil.virtual_memory().available
        if not narrow or 32 * sum(t.numel() for t in narrow) > memory:
            raise InputError("nothing to widen, or no memory for it")
        for tensor in narrow:  # gradients are among them
            tensor.data = tensor.data.to(_wide(tensor.dtype))
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # of what it makes by itself
        try:
            return pytree.tree_map_only(float, torch.tensor, call())
        finally:
            torch.set_default_dtype(usual)

    try:
        # What is compiled inside must not be compiled again for this.
        with torch.compiler.set_stance("force_eager"):
            outcome = setting.outcome("eager", eager, seed, run)
    except Exception:  # a dtype it cannot do is no reason to stop
        return None
    if [t.shape for t in outcome.results] != [t.shape for t in answer.results]:
        return None
    wide = all(_wide(t.dtype) == t.dtype for t in outcome.results)
    # What ends in float32 is a judge of what is rounded further, as under autocast.
    coarse = _relative_error(outcome.results, answer.results) > 1e-5
    return outcome if wide or coarse else None


def _wide(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


# --- rounding, or another answer? ----------------------------------------------


def _pairs(a: Outcome, b: Outcome) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
    """Return what two outcomes returned and changed in pairs; None for other forms.

    Both sides may hold one model or each its own: what counts is the order.
    """
    forms = [
        [(t.shape, t.dtype) for t in side.results] + [t.shape for t in side.changes]
        for side in (a, b)
    ]
    if forms[0] != forms[1]:
        return None
    return list(zip(a.results + a.changes, b.results + b.changes, strict=True))


def _matches(
    answer: Outcome,
    other: Outcome,
    reference: Outcome | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Return whether *other* is *answer* up to rounding; *reference* is in float64."""
    pairs = _pairs(answer, other)
    if pairs is None:
        return False
    if rtol is not None or atol is not None:
        return all(_close(x, y, rtol or 0.0, atol or 0.0) for x, y in pairs)
    truths, changes = answer.results, answer.changes
    share = max((_RTOL.get(dtype, 0.0) for dtype in answer.dtypes), default=0.0)
    if reference:
        # What eager is off, as a share of all it gives: of one number alone, eager may
        # be nearer to the truth by chance.
        truths = reference.results
        share = 2 * _relative_error(truths, answer.results)
        if [t.shape for t in reference.changes] == [t.shape for t in changes]:
            changes = reference.changes
    same = all(
        _close(x, y) or _near(x, y, truth, 2, share, 4)
        for x, y, truth in zip(answer.results, other.results, truths, strict=True)
    )
    # An update is a small difference of large numbers, and an optimizer may turn noise
    # into a full step: no more is asked than that it is the same step.
    return same and all(
        _near(x, y, truth, 4, 0.02, math.inf)
        for x, y, truth in zip(answer.changes, other.changes, changes, strict=True)
    )


def _near(
    x: torch.Tensor,
    y: torch.Tensor,
    truth: torch.Tensor,
    factor: float,
    share: float,
    spread: float,
) -> bool:
    """Return whether *y* is about as near to the *truth* as *x* is.

    The root mean square of its error may be *factor* times that of *x*, or *share* of
    the size of the truth, and its largest error *spread* times as much of the largest.
    """
    if torch.equal(x, y):
        return True
    if x.dtype != y.dtype or not (x.is_floating_point() or x.is_complex()):
        return False
    (mean_x, most_x), (mean_y, most_y) = _size(truth, x), _size(truth, y)
    if not math.isfinite(most_x):  # eager overflows: only the truth will do
        return _close(truth.to(y.dtype), y)
    mean, most = _size(truth)
    if mean_y > max(factor * mean_x, share * mean):
        return False
    return spread == math.inf or most_y <= spread * max(factor * most_x, share * most)


def _close(
    x: torch.Tensor,
    y: torch.Tensor,
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Return whether two tensors agree as ``torch.testing.assert_close`` has it."""
    try:
        torch.testing.assert_close(y, x, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError:
        return False
    return True


def _size(x: torch.Tensor, y: torch.Tensor | None = None) -> tuple[float, float]:
    """Return root mean square and largest absolute value of *x*, or of ``x - y``."""
    total, largest = 0.0, 0.0
    y = torch.zeros_like(x) if y is None else y
    flat = x.reshape(-1).split(_PIECE), y.reshape(-1).split(_PIECE)
    for a, b in zip(*flat, strict=True):
        if a.dtype == b.dtype and torch.equal(a, b):  # empty ones, too
            continue
        wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
        apart = (a.to(wide) - b.to(wide)).abs()
        same = (a == b) | (a.isnan() & b.isnan())  # infinities, and not-a-numbers
        apart = apart.nan_to_num(math.inf, math.inf).masked_fill(same, 0.0)
        total += float(apart.square().sum())
        largest = max(largest, float(apart.max()))
    return math.sqrt(total / max(1, x.numel())), largest


def _relative_error(truths: _Tensors, results: _Tensors) -> float:
    """Return how far all *results* together are off, as a share of their size."""
    off = size = 0.0
    for truth, result in zip(truths, results, strict=True):
        off += _size(truth, result)[0] ** 2 * truth.numel()
        size += _size(truth)[0] ** 2 * truth.numel()
    return math.sqrt(off / size) if 0 < size < math.inf and off < math.inf else 0.0


def _largest(a: Outcome, b: Outcome) -> float:
    """Return the largest absolute difference, infinite where the forms differ."""
    a, b = (a.results, b.results) if a.results else (a.changes, b.changes)
    if [t.shape for t in a] != [t.shape for t in b]:
        return math.inf
    return max((_size(x, y)[1] for x, y in zip(a, b, strict=True)), default=0.0)
