"""Is a number off by rounding, or wrong?  The same function in float64 decides.

Compiled code is often nearer to the truth than eager, not farther.  `judge` asks this
of each tensor that a call returns or changes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from .errors import InputError
from .session import one_device, random_state, restored, tensors_of
from .tensors import memory_of, tensors

_PIECE = 1 << 22  # elements compared at a time, so that it takes little memory
_RTOL = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6}
COARSER = 1e-5
"""An error above this share of a result is of a dtype shorter than float32."""
_SAME_STEP = 0.02
"""Updates that are no farther apart than this share of their size are one step."""
_TURNED = 1 / 256
"""Of this share of its elements, rounding may choose which way Adam steps."""
_ROW = 0.2
"""Farther from the truth than this share of its size, one row of an update is wrong."""
NUDGES = 4
"""So often eager runs with last digits moved, before an answer is called wrong."""
_MOST_ROWS = 4096
"""So many rows of a result are looked for in another order: it takes their square."""
_NOISE = 2**12
"""So many last digits of the largest gradient, one that should be zero may have.

A bias before a normalization, or of attention's keys, changes nothing: its gradient is
what thousands of numbers leave when they cancel, and another order leaves more.
"""
_TIMES = 2
"""So many times as far as eager is, another order of the same sums may be off."""

_Tensors = Sequence[torch.Tensor]


def device_of(inputs: Any, *functions: Any) -> str:
    """Return ``cpu`` or ``cuda``: where inputs and parameters are.

    Raises InputError when they are on more than one device, or on one that no
    clock here waits for.
    """
    modules = [f for f in functions if isinstance(f, torch.nn.Module)]
    device = one_device((inputs, modules))
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        raise InputError(
            f"first make it the current GPU: torch.cuda.set_device({device.index})"
        )
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"{device.type} cannot be timed here: use 'cpu' or 'cuda'")
    return device.type


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Seed all random numbers; put the caller's state back at the end."""
    with random_state():
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        yield


@contextmanager
def eager_numbers() -> Iterator[None]:
    """Let what is compiled inside draw the random numbers of eager.

    Else Inductor draws in its own way, and torch draws what NumPy should.
    """
    with (
        torch._inductor.config.patch(fallback_random=True),
        torch._dynamo.config.patch(use_numpy_random_stream=True),
    ):
        yield


def weighted_sum(result: Any) -> torch.Tensor:
    """Return a loss: the sum of all that *result* has with a gradient, weighted.

    The plain sum of what a normalization returns is always the same: no gradient would
    come through it, and none before it be compared.  Weights are whole numbers from -6
    to 6, exact in any dtype.

    Raises InputError where nothing in *result* has a gradient.
    """
    roots = [t for t in tensors(result) if t.requires_grad and t.is_floating_point()]
    if not roots:
        raise InputError("to train, a result must require gradients: return a loss too")
    places = (torch.arange(t.numel(), device=t.device).view(t.shape) for t in roots)
    return sum(
        (t * (place % 13 - 6)).sum() for t, place in zip(roots, places, strict=True)
    )


def change_of(new: torch.Tensor, old: torch.Tensor | None) -> torch.Tensor | None:
    if old is None or old.shape != new.shape:
        return new.clone()
    old = old.to(new.dtype)
    if size_of(new, old)[1] == 0:
        return None
    if new.is_floating_point() and new.itemsize == 1:
        return new.clone()  # float8 has no difference
    return new != old if new.dtype == torch.bool else new - old


def noise_of(held: _Tensors, changes: Sequence[torch.Tensor | None]) -> list[float]:
    """Return below which root mean square a change of each tensor is rounding."""
    gradients = {id(t.grad) for t in held if t.is_leaf and t.grad is not None}
    known = [c for t, c in zip(held, changes, strict=True) if id(t) in gradients]
    new = [change for change in known if change is not None]
    share = max((_cancelled(change.dtype) for change in new), default=0.0)
    noise = share * max((size_of(change)[0] for change in new), default=0.0)
    return [noise if id(t) in gradients else 0.0 for t in held]


def _kept(state: restored, touched: _Tensors) -> _Tensors:
    """Return tensors that are to be changed; InputError if one cannot be put back."""
    if not {id(tensor) for tensor, *_ in state.values}.issuperset(map(id, touched)):
        raise InputError("a tensor has a form in which it cannot be put back")
    return touched


@contextmanager
def in_float64(state: restored, *objects: Any) -> Iterator[None]:
    """Make float64, where they are, all floating-point tensors that *objects* hold.

    Until *state* is put back, they stay so; what the block makes by itself is float64,
    too, and what it asks to be of a shorter dtype.  Raises InputError where one could
    not be put back, or memory lacks for it.
    """
    narrow = [t for t in tensors_of(*objects) if _wide(t.dtype) != t.dtype]
    _kept(state, narrow)
    if narrow:
        on_gpu, free = narrow[0].is_cuda, psutil.virtual_memory().available
        free = torch.cuda.mem_get_info()[0] if on_gpu else free
        if 32 * sum(t.numel() for t in narrow) > free:
            raise InputError("no memory for it")
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        _widen(narrow)
        with _Wide():
            yield
    finally:
        torch.set_default_dtype(usual)


class _Wide(TorchFunctionMode):
    """Give float64 where a shorter dtype is asked for: no rounding between."""

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def wide(dtype: torch.dtype) -> torch.dtype:
            # float8 stays, for its products take nothing else.
            return dtype if dtype.itemsize == 1 else _wide(dtype)

        if func is not torch.Tensor.view:  # which reads bits as they are
            args, kwargs = pytree.tree_map_only(torch.dtype, wide, (args, kwargs))
        return (torch.Tensor.double if func in _CASTS else func)(*args, **kwargs or {})


_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


def _widen(narrow: Sequence[torch.Tensor]) -> None:
    """Make all float64 where they are; what shares memory shares it, gaps stay."""
    wide: dict[Any, torch.Tensor] = {}
    for tensor in narrow:
        place = memory_of(tensor) or id(tensor), tensor.dtype
        if place not in wide:
            whole = tensor.data.new_empty(0).set_(tensor.untyped_storage())
            wide[place] = whole.to(_wide(tensor.dtype))
        how = tensor.shape, tensor.stride(), tensor.storage_offset()
        new = wide[place].as_strided(*how)
        tensor.data = new.conj() if tensor.is_conj() else new


@contextmanager
def nudged(state: restored, turn: int, share: float, *objects: Any) -> Iterator[None]:
    """Move numbers that *objects* hold by their last digit, or a larger *share*.

    Equal ones move alike.

    Until *state* is put back, they stay so.  Whole numbers are not moved, for they are
    often counts, places or masks.  Which way each goes, its digits and *turn* decide.
    """
    known = set[Any]()
    for tensor in _kept(state, tensors_of(*objects)):
        place = memory_of(tensor) or id(tensor), tensor.dtype
        if place in known or not tensor.is_floating_point() or tensor.itemsize == 1:
            continue
        known.add(place)
        whole = tensor.data.new_empty(0).set_(tensor.untyped_storage())
        for piece in whole.split(_PIECE):
            piece.copy_(_nudged_digits(piece, turn, share))
    yield


def _nudged_digits(values: torch.Tensor, turn: int, share: float) -> torch.Tensor:
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.itemsize]
    digits = values.view(whole).to(torch.int64) * (2654435761 + 2 * turn)
    ways = (digits >> (7 + turn)) & 1
    share = max(share, torch.finfo(values.dtype).eps)
    moved = values * (1 + share * (2 * ways - 1)).to(values)
    return torch.where(values == values.round(), values, moved)


def _wide(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def share_of(truths: _Tensors, results: _Tensors) -> float:
    """Return by which share of its size a result may be off.

    That is what eager is off, as a share of all it gives: of one number alone, eager
    may be nearer to the truth by chance.
    """
    return _TIMES * relative_error(truths, results)


def share_of_sums(x: torch.Tensor, most: int) -> float:
    """Return which share of its size a sum in *x* may be off, of *most* numbers in all.

    Added one by one, their rounding grows as the root of how many there are.
    """
    numbers = x.is_floating_point() and x.itemsize > 1 and x.numel()  # no float8
    if not numbers or not bool(x.isfinite().all()):
        return 0.0
    return torch.finfo(x.dtype).eps * math.sqrt(max(1.0, most / x.numel())) / 2


def right(
    x: torch.Tensor,
    y: torch.Tensor,
    truth: torch.Tensor | None,
    share: float,
    others: _Tensors = (),
) -> bool:
    """Return whether *y*, of compiled code, is the result *x* up to rounding.

    *truth* is the same in float64, None where it could not run, *share* is that of
    `share_of`, and *others* are what eager gives where last digits are moved.
    """
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    rtol = digits_of(x.dtype)
    # Beside a truth, digits alone: numbers near 0 are judged by what eager is off.
    atol = 0.0 if truth is not None or not rtol else rtol * size_of(x)[1]
    if close(x, y, rtol, atol if math.isfinite(atol) else 0.0):
        return True
    truth = x if truth is None else truth
    return _near(x, y, truth, share, others, times=_TIMES, spread=4)


def right_change(
    x: torch.Tensor,
    y: torch.Tensor,
    truth: torch.Tensor,
    noise: float = 0.0,
    others: _Tensors = (),
) -> bool:
    """Return whether *y* is the change *x* up to rounding, given it in float64.

    Below a root mean square of *noise*, a change is rounding and nothing else.  What
    has some is a gradient, which no optimizer turned into a step: with a truth, it may
    be off by no more digits than numbers leave that cancel.  An update is a small
    difference of large numbers: it only has to be the same step.
    """
    if noise and truth is not x:
        return _near(x, y, truth, _cancelled(x.dtype), others, noise)
    return _near(x, y, truth, _SAME_STEP, others, noise) or _same_step(x, y)


def _cancelled(dtype: torch.dtype) -> float:
    """Return the share of the largest gradient that may be left of one without any."""
    return min(_NOISE * torch.finfo(dtype).eps, _SAME_STEP)


def _near(
    x: torch.Tensor,
    y: torch.Tensor,
    truth: torch.Tensor,
    share: float,
    others: _Tensors,
    noise: float = 0.0,
    times: float = 4,
    spread: float = math.inf,
) -> bool:
    """Return whether *y* is about as near to the *truth* as *x* is.

    The root mean square of its error counts, for one number may be near by chance: it
    may be so many *times* that of eager, or a *share* of the size of the truth, and
    the largest error *spread* times as much.  Where *x* is nothing but rounding, so may
    *y* be, up to *noise*.  *others*, which eager gives where last digits are moved, are
    as good as *x*.
    """
    if torch.equal(x, y):
        return True
    if x.dtype != y.dtype:
        return False
    if not (x.is_floating_point() or x.is_complex()):
        return _turns(x, y, truth, others)
    sides = x, *(o for o in others if o.shape == x.shape)
    errors = [size_of(truth, side) for side in sides]
    (mean_x, most_x), (mean_y, most_y) = (
        map(max, zip(*errors, strict=True)),
        size_of(truth, y),
    )
    if not math.isfinite(errors[0][1]):  # eager overflows: only the truth will do
        return close(truth.to(y.dtype), y)
    mean, most = size_of(truth)
    floor = noise if truth is x or mean_x >= _SAME_STEP * mean else 0.0
    limit = max(times * mean_x, share * mean, floor)
    if mean_y > limit:
        return False
    if spread < math.inf:
        return most_y <= spread * max(times * most_x, share * most)
    worst = max(float(_rows(truth, side).max()) for side in sides)
    far, rows = _rows(truth, y), _rows(truth, torch.zeros_like(truth))
    return bool((far <= (_ROW * rows).clamp(min=max(times * worst, limit))).all())


def _rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the root mean square of each row of ``x - y``."""
    count = len(x) if x.dim() else 1
    step = max(1, _PIECE * count // x.numel())
    sides = (side.reshape(count, -1).split(step) for side in (x, y))
    pieces = zip(*sides, strict=True)
    return torch.cat([distance(a, b).square().mean(1).sqrt() for a, b in pieces])


def _turns(
    x: torch.Tensor, y: torch.Tensor, truth: torch.Tensor, others: _Tensors
) -> bool:
    """Return whether whole numbers differ only where eager's do, exact or nudged."""
    turned = torch.zeros_like(x, dtype=torch.bool)
    for other in (truth, *others):
        if other.shape == x.shape:
            turned |= x != other
    return bool(turned[x != y].all())


def _same_step(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Return whether two updates are the same, but for the signs of a few elements.

    Adam divides a gradient by its size: where that is rounding and nothing else, a
    full step is left, and rounding chose its direction.
    """
    limit = _SAME_STEP * size_of(x)[0]
    if x.dtype != y.dtype or not x.is_floating_point() or limit == math.inf:
        return False
    turned = 0
    for a, b in _pieces(x, y):
        apart = ~((a - b).abs() <= limit)  # and not-a-numbers
        if not bool(((a + b).abs()[apart] <= limit).all()):
            return False
        turned += int(apart.sum())
    return turned <= x.numel() * _TURNED


def close(
    x: torch.Tensor,
    y: torch.Tensor,
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Return whether two tensors agree as ``torch.testing.assert_close`` has it."""
    try:
        for a, b in _pieces(x, y):
            if not torch.equal(a, b):  # which is quicker to see
                torch.testing.assert_close(b, a, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError:
        return False
    return True


def size_of(x: torch.Tensor, y: torch.Tensor | None = None) -> tuple[float, float]:
    """Return root mean square and largest absolute value of *x*, or of ``x - y``."""
    total, largest = 0.0, 0.0
    for a, b in _pieces(x, torch.zeros_like(x) if y is None else y):
        if not a.numel() or (a.dtype == b.dtype and torch.equal(a, b)):
            continue
        apart = distance(a, b)
        total += float(apart.square().sum())
        largest = max(largest, float(apart.max()))
    return math.sqrt(total / max(1, x.numel())), largest


def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return how far apart each number is; infinite for a NaN on one side only."""
    wide = torch.complex128 if x.is_complex() or y.is_complex() else torch.float64
    far = (x.to(wide) - y.to(wide)).abs().nan_to_num(math.inf, math.inf)
    return far.masked_fill((x == y) | (x.isnan() & y.isnan()), 0.0)


def relative_error(
    truths: Iterable[torch.Tensor], results: Iterable[torch.Tensor]
) -> float:
    """Return how far all *results* together are off, as a share of their size."""
    off = size = 0.0
    for truth, result in zip(truths, results, strict=True):
        off += size_of(truth, result)[0] ** 2 * truth.numel()
        size += size_of(truth)[0] ** 2 * truth.numel()
    return math.sqrt(off / size) if 0 < size < math.inf and off < math.inf else 0.0


def _pieces(
    x: torch.Tensor, y: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield pairs of flat pieces, so that large results cost little memory."""
    float8 = x.is_floating_point() and x.itemsize == 1  # which has no arithmetic
    x, y = x.reshape(-1), y.reshape(-1)
    for a, b in zip(x.split(_PIECE), y.split(_PIECE), strict=True):
        yield (a.float(), b.float()) if float8 else (a, b)


def digits_of(dtype: torch.dtype) -> float:
    """Return the relative tolerance of a *dtype*, which is 0 of whole numbers."""
    short = dtype.is_floating_point or dtype.is_complex
    return _RTOL.get(dtype, 1e-7 if short else 0.0)


def in_order_of(results: _Tensors, others: _Tensors) -> _Tensors:
    """Return *others* with rows in the order of *results*, where scores tie.

    A detector sorts its boxes by score, and scores that are equal up to rounding may
    come in either order.  Only rows within such a tie are exchanged.  Each row is held
    against each: more rows than any detector returns stay as they are.
    """
    for scores, score in zip(results, others, strict=True):
        flat = scores.dim() == 1 and scores.is_floating_point()
        n = len(scores) if flat and scores.itemsize > 1 else 0  # float8 has no diff()
        if (
            not 2 <= n <= _MOST_ROWS
            or bool((scores.diff() > 0).any())
            or not close(scores, score)
        ):
            continue
        tolerance = 1e-5 + 10 * _RTOL.get(scores.dtype, 0.0) * scores[1:].abs()
        ties = scores.diff().abs() <= tolerance
        group = torch.cat([ties.new_zeros(1), ~ties]).cumsum(0)  # (n,)
        rows = [p for p, t in enumerate(results) if t.shape[:1] == (n,)]
        ours, theirs = (
            torch.cat([side[p].reshape(n, -1).double() for p in rows], 1)
            for side in (results, others)
        )  # (n, numbers in a row)
        far = torch.cdist(ours, theirs)
        far[group[:, None] != group] = math.inf
        order = far.argmin(1)
        if len(order.unique()) == n:
            others = [t[order] if p in rows else t for p, t in enumerate(others)]
    return others
