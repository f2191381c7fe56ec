"""Correctness before speed: do two functions give the same answer?

A timing of a wrong answer is worth nothing, so ``compare`` asks this first.
Where the dtypes allow, both are also held against the same function in float64,
since compiled code is often nearer to the truth than eager, not farther.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from helpers import _torch
from helpers.errors import InputError
from helpers.tensors import clone, map_tensors, tensors

_PIECE = 1 << 22  # elements compared at a time
_LARGE = 1 << 24  # elements above which float64 would cost too much memory


@dataclasses.dataclass(frozen=True)
class Agreement:
    """What running both sides once told.

    *matches* is None when it was not decided, because the function draws random
    numbers or two different computations are raced.  Errors are the largest
    absolute differences.
    """

    matches: bool | None
    max_error: float
    error64: tuple[float, float] | None
    notes: tuple[str, ...]


NOT_ASKED = Agreement(None, 0.0, None, ("two different computations, on purpose",))


def device_of(inputs: tuple[Any, ...], *functions: Any) -> str:
    """Return ``cpu`` or ``cuda``: where inputs and parameters are.

    Raises InputError when they are on more than one device, or on one that no
    clock here waits for.
    """
    found = {t.device for t in tensors(inputs)}
    for function in functions:
        if isinstance(function, torch.nn.Module):
            found.update(p.device for p in function.parameters())
    if len(found) > 1:
        raise InputError(
            f"inputs and parameters are on {len(found)} devices "
            f"({', '.join(sorted(map(str, found)))}): move them to one with .to()"
        )
    where = found.pop() if found else torch.device("cpu")
    if where.type == "cuda" and where.index != torch.cuda.current_device():
        raise InputError(
            f"first make it the current GPU: torch.cuda.set_device({where.index})"
        )
    if where.type not in ("cpu", "cuda"):
        raise InputError(f"{where.type} cannot be timed here: use .to('cpu') or 'cuda'")
    return where.type


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's random numbers; put the reader's state back at the end."""
    cuda = torch.cuda.is_available()  # to name the GPU, or torch warns of several
    with torch.random.fork_rng([torch.cuda.current_device()] if cuda else []):
        torch.manual_seed(seed)
        yield


def run(
    side: str, function: Callable, inputs: tuple[Any, ...], seed: int
) -> tuple[list[torch.Tensor], tuple[Any, ...]]:
    """Return the tensors *function* gives for copies of *inputs*, and these copies.

    The tensors are detached, the copies are as the call left them.  Raises
    InputError when it raises or returns no tensor.
    """
    own = clone(inputs)
    try:
        with seeded(seed):
            result = function(*own)
    except Exception as error:
        if promise := _torch.broken_promise(error):
            raise InputError(promise) from error
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"the {side} function raised {type(error).__name__}: {first}\n"
            f"{_advice(side)}"
        ) from error
    if not any(True for _ in tensors(result)):
        raise InputError(
            f"the {side} function returned no tensor, so nothing shows that both "
            "sides compute the same: return a result (the loss, for a training step)"
        )
    return _safe(result, own), own


def _safe(result: Any, inputs: Any) -> list[torch.Tensor]:
    """Return the tensors of *result*, copied where a later call could overwrite them.

    On a GPU that may be any output (CUDA graphs reuse their memory); on a CPU
    only one that shares its memory with an input.
    """
    ours = {t.untyped_storage().data_ptr() for t in tensors(inputs)}

    def keep(t: torch.Tensor) -> torch.Tensor:
        shared = t.device.type != "cpu" or t.untyped_storage().data_ptr() in ours
        return t.detach().clone() if shared else t.detach()

    return [keep(t) for t in tensors(result)]


def _advice(side: str) -> str:
    if side == "eager":
        return "Call it by itself first and mend that; there is nothing to time yet."
    return (
        "Eager ran, so compiling failed: `python -m helpers doctor` checks the "
        "compiler and triton, and graphs(fn, *inputs) shows how far Dynamo came."
    )


def agreement(
    eager: Callable,
    inputs: tuple[Any, ...],
    compiled_out: Any,
    compiled_inputs: Any,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    float64: bool = True,
) -> Agreement:
    """Hold what the compiled side gave against eager, and both against float64.

    *rtol* and *atol* default to those of ``torch.testing.assert_close`` for the
    dtype.  Outside them the compiled side still matches when its error against
    float64 is no larger than twice that of eager.
    """
    out, changed = run("eager", eager, inputs, seed)
    notes = []
    # Not to the bit: on a GPU, sums in another order differ in their last digits.
    if not _close(out, run("eager", eager, inputs, seed + 1)[0], None, None):
        notes.append("draws random numbers: results were not held against each other")
        return Agreement(None, 0.0, None, tuple(notes))
    if not _close(inputs, changed, 0.0, 0.0):
        notes.append("changes its inputs: each timed call sees other numbers")
    apart, error64 = _distance(out, compiled_out), None
    reference = _in_float64(eager, inputs, seed) if float64 else None
    if reference is not None:
        far = _distance(reference, out)
        error64 = (far, _distance(reference, compiled_out) if apart else far)
    matches = _close((out, changed), (compiled_out, compiled_inputs), rtol, atol)
    if not matches and rtol is None and atol is None and error64 is not None:
        near = error64[1] <= 2 * error64[0]
        if not math.isfinite(error64[0]):  # eager overflows: only the truth will do
            pairs = zip(reference, out, strict=False)
            near = _close([r.to(t.dtype) for r, t in pairs], compiled_out, None, None)
        matches = near and _forms(out) == _forms(compiled_out)
    if not matches:
        notes.append("results differ: the speed-up is that of another computation")
    return Agreement(matches, apart, error64, tuple(notes))


def _forms(value: Any) -> list[tuple[torch.Size, torch.dtype]]:
    return [(t.shape, t.dtype) for t in tensors(value)]


def _close(a: Any, b: Any, rtol: float | None, atol: float | None) -> bool:
    if _forms(a) != _forms(b):
        return False
    if rtol is not None or atol is not None:
        rtol, atol = rtol or 0.0, atol or 0.0
    try:
        for x, y in _pieces(a, b):
            if not torch.equal(x, y):  # which is quicker to see
                torch.testing.assert_close(y, x, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError:
        return False
    return True


def _pieces(a: Any, b: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield pairs of flat pieces, so that large results cost little memory."""
    for x, y in zip(tensors(a), tensors(b), strict=True):
        x, y = x.detach().reshape(-1), y.detach().reshape(-1)
        yield from zip(x.split(_PIECE), y.split(_PIECE), strict=True)


def _distance(a: Any, b: Any) -> float:
    """Return the largest absolute difference, infinite where the forms differ."""
    largest = 0.0
    if [t.shape for t in tensors(a)] != [t.shape for t in tensors(b)]:
        return float("inf")
    for s, t in _pieces(a, b):
        if s.dtype == t.dtype and torch.equal(s, t):  # empty ones, too
            continue
        wide = torch.complex128 if s.is_complex() else torch.float64
        apart = (s.to(wide) - t.to(wide)).abs()
        most = float(apart.max()) if s.numel() else 0.0
        if math.isnan(most):  # of infinities, or of a NaN on either side
            same = (s == t) | (s.isnan() & t.isnan())
            apart = apart.nan_to_num(math.inf, math.inf).masked_fill(same, 0.0)
            most = float(apart.max())
        largest = max(largest, most)
    return largest


def _in_float64(eager: Callable, inputs: tuple, seed: int) -> Any:
    """Return what eager gives in float64, or None where that cannot be had."""
    held = [*tensors(inputs)]
    if isinstance(eager, torch.nn.Module):
        held += eager.parameters()
    floats = {t.dtype for t in held if t.is_floating_point()}
    if not floats or torch.float64 in floats or sum(t.numel() for t in held) > _LARGE:
        return None
    try:
        if isinstance(eager, torch.nn.Module):
            eager = copy.deepcopy(eager).double()
        wide = map_tensors(
            lambda t: t.double() if t.is_floating_point() else t, clone(inputs)
        )
        result, _ = run("eager", eager, wide, seed)
    except Exception:  # a dtype it cannot do is no reason to stop
        return None
    kinds = {t.dtype for t in result if t.is_floating_point()}
    return result if kinds == {torch.float64} else None
