"""What calls give: the value at each place, and what shares memory with what.

A `Trial` runs one side over all calls in order, or one call alone, each time from the
same state.  It keeps copies, which a later call cannot overwrite.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from . import _torch, correctness
from .errors import CompiledRaises, InputError, one_line
from .session import has_values, placed, plain_state, restored
from .tensors import clone, memory_of, tensors

Call = tuple[tuple[Any, ...], dict[str, Any]]
_PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), range, set, frozenset),
    *(torch.dtype, torch.device, torch.Size),
)
_ROUGHLY = 0.02
"""A number of Python that is off by this share may come of a rounded tensor."""


@dataclass(frozen=True)
class Place:
    """What is at one place of a result, or in a tensor that is held after a call.

    *value* is a copy: a tensor, also of a number, or what is no number.  Of a tensor
    that is held it is what was added to it, None where nothing was; of a new one, all
    of it.  *form* has the other fields that count, by name.  *known* is the id of a
    tensor that was held before the first call, else 0.  Below *noise*, it's rounding.
    """

    value: Any
    form: dict[str, Any]
    known: int = 0
    noise: float = 0.0

    @property
    def changed(self) -> bool:
        return self.value is not None


@dataclass(frozen=True)
class Outcome:
    """What one call gave, or raised, and what it left behind.

    *stage* is ``the call`` or ``the backward``: where it raised.  *kind* is the type of
    what it returned.  *plain* has the numbers and texts that were changed, by place.
    """

    error: BaseException | None = None
    stage: str = "the call"
    kind: str = ""
    results: dict[str, Place] = field(default_factory=dict)
    left: dict[str, Place] = field(default_factory=dict)
    plain: dict[str, Any] = field(default_factory=dict)

    @property
    def changes(self) -> list[torch.Tensor]:
        """What was added to the tensors that are held, of those that changed."""
        return [one.value for one in self.left.values() if one.changed]

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What was returned, of what has numbers."""
        values = {place: one.value for place, one in self.results.items()}
        return {p: v for p, v in values.items() if isinstance(v, torch.Tensor)}


class Trial:
    """Both sides' calls, and the state that each round of them begins with.

    Both sides share the copies of the inputs, so that each call finds the same numbers
    in the same memory.  *gradients* is the loss whose backward belongs to each call; or
    True, for a weighted sum of the results, with gradients of all floating-point inputs
    as well.  *whole* is for one program that is run in two ways, not for two functions:
    strides, aliases, and what lists and attributes are called count, too.  *model* is
    what *eager* runs, if that only wraps it.  What a side has as ``around`` is entered
    around its calls, their backwards too.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        eager: Callable[..., Any],
        compiled: Callable[..., Any],
        *,
        gradients: bool | Callable[[Any], torch.Tensor] = False,
        whole: bool = True,
        model: Any = None,
    ) -> None:
        self.eager, self.compiled, self.whole = eager, compiled, whole
        self.model = eager if model is None else model
        self.gradients = gradients
        self.calls = clone(list(calls))  # once: what they share, they share here
        if gradients is True:
            for tensor in tensors(self.calls):
                leaf = tensor.is_leaf and not tensor.is_inference()
                if tensor.is_floating_point() and leaf:
                    tensor.requires_grad_()
        self.state = restored(self.model, eager, compiled, self.calls)
        self.old = {id(tensor): value for tensor, _, value in self.state.values}
        self.most = max((one.numel() for *_, one in self.state.values), default=0)
        self.order = {key: position for position, key in enumerate(self.old)}
        numbers = range(len(self.calls))
        self._plain = {n: plain_state(self._held(n, self.model)) for n in numbers}

    def call(self, fn: Callable[..., Any]) -> Callable[[], Any]:
        """Put the state back, and return the first call of *fn* without arguments."""
        with self.state:
            pass
        inputs, kwargs = self.calls[0]
        return partial(fn, *inputs, **kwargs)

    def round(
        self,
        fn: Callable[..., Any],
        only: int | None = None,
        *,
        seed: int = 0,
        around: Callable[..., AbstractContextManager] = lambda *_: nullcontext(),
        run: Callable[[Callable[[], Any]], Any] = lambda call: call(),
    ) -> dict[int, Outcome]:
        """Return the outcome of each call of *fn*, in order, or of *only* one.

        *around* is entered with all that the calls can reach, after the state is put
        back, and around the calls.  *run* runs each call.
        """
        with self.state:
            pass
        numbers = range(len(self.calls)) if only is None else [only]
        with self.state, around(fn, self.calls):
            return {n: self._call(fn, n, seed, run) for n in numbers}

    def outcome(self, side: str, fn: Callable[..., Any], **how: Any) -> Outcome:
        """Return the outcome of the first call, `checked`."""
        return checked(side, self.round(fn, 0, **how)[0])

    def _call(
        self, fn: Callable[..., Any], number: int, seed: int, run: Callable
    ) -> Outcome:
        inputs, kwargs = self.calls[number]
        stage, returned = "the call", {}
        with correctness.seeded(seed + number), getattr(fn, "around", nullcontext)():
            try:
                returned["output"] = result = run(partial(fn, *inputs, **kwargs))
                if (loss := self._loss(result)) is not None:
                    stage = "the backward"
                    loss.backward()
                    if callable(self.gradients) and loss is not result:
                        returned["the loss"] = loss
            except (Exception, SystemExit) as error:
                return Outcome(error.with_traceback(None), stage)
        model = self.model if fn is self.eager else _torch.unwrap(fn)
        roots, old = self._held(number, model), self._plain[number]
        now = dict.fromkeys(old, "nothing") | plain_state(roots)
        plain = {
            f"{place.lstrip('.')} after the call": now[place]
            for place in now
            if place not in old or not same_plain(old[place], now[place])
        }
        held = {p: t for p, t in placed(roots) if isinstance(t, torch.Tensor)}
        left = self._left(model, held)
        found = _values(returned, held, self.whole)
        if self.whole:
            return Outcome(None, stage, type(result).__name__, found, left, plain)
        given = {p: now for p, now in plain.items() if p.startswith("input ")}
        given = {p: now for p, now in given.items() if isinstance(now, list)}
        return Outcome(None, stage, "", found, left, given)

    def _loss(self, result: Any) -> torch.Tensor | None:
        """Return the loss of *result*, if a backward belongs to the call."""
        if callable(self.gradients):
            return self.gradients(result)
        known = self.gradients and any(t.requires_grad for t in tensors(result))
        return correctness.weighted_sum(result) if known else None

    def _held(self, number: int, model: Any) -> dict[str, Any]:
        """Return what a call can change: its inputs by eager's names, and the model."""
        inputs, kwargs = self.calls[number]
        try:
            signature = inspect.signature(getattr(self.model, "forward", self.model))
            given = signature.bind(*inputs, **kwargs).arguments
        except (TypeError, ValueError):  # no signature, as of a builtin
            given = {**dict(enumerate(inputs)), **kwargs}
        return {f"input {name}": value for name, value in given.items()} | {"": model}

    def _left(self, model: Any, held: dict[str, torch.Tensor]) -> dict[str, Place]:
        """Return the tensors that are left behind, by the name of each place."""
        dense = {p: t for p, t in held.items() if has_values(t)}
        changes = [
            correctness.change_of(t.detach(), self.old.get(id(t)))
            for t in dense.values()
        ]
        noise = correctness.noise_of(list(dense.values()), changes)
        module = isinstance(model, torch.nn.Module)
        buffers = {id(b) for b in model.buffers()} if module else set()
        names = [_named(place, t, id(t) in buffers) for place, t in dense.items()]
        known = [id(t) if id(t) in self.old else 0 for t in dense.values()]
        forms = map(_form, dense.values())
        places = map(Place, changes, forms, known, noise)
        return dict(zip(names, places, strict=True))

    def paired(self, x: Outcome, y: Outcome) -> tuple[Outcome, Outcome]:
        """Return both with one name for what belongs together.

        Two functions name what they hold in two ways, and each may have a model:
        what counts is the order.  Where one holds more, what was changed is paired.
        """
        if self.whole or x.error or y.error:
            return x, y
        last = len(self.order)  # new ones follow those of the state
        ours, theirs = (
            sorted(one.left.items(), key=lambda p: self.order.get(p[1].known, last))
            for one in (x, y)
        )
        if [one.form for _, one in ours] != [one.form for _, one in theirs]:
            ours, theirs = (
                [s for s in side if s[1].changed] for side in (ours, theirs)
            )
        if len(ours) == len(theirs):
            theirs = [
                (place, replace(other, known=one.known))
                for (place, one), (_, other) in zip(ours, theirs, strict=True)
            ]
        return replace(x, left=dict(ours)), replace(y, left=dict(theirs))


def checked(side: str, outcome: Outcome) -> Outcome:
    """Return *outcome*; *side* names its function in errors.

    Raises InputError where the function failed, or nothing shows what it computes.
    """
    if isinstance(outcome.error, (InputError, SystemExit)):
        raise outcome.error
    if error := outcome.error:
        if promise := _torch.broken_promise(error):
            raise CompiledRaises(promise) from error
        advice = {
            "eager": "Call it by itself first and fix that; there is nothing to time "
            "yet.",
            "compiled": "Eager ran, so compiling failed: "
            f"`python -m {__package__} doctor` checks the compiler and triton, and "
            "graphs(fn, *inputs) shows how far Dynamo came.",
        }
        kind = CompiledRaises if side == "compiled" else InputError
        said = f"the {side} function raised {one_line(error)}"
        raise kind(f"{said}\n{advice[side]}") from error
    if not (outcome.tensors or outcome.changes):
        raise InputError(
            f"the {side} function returned no tensor or number, and changed none, so "
            "nothing shows that both sides compute the same: return a result"
        )
    return outcome


def _named(place: str, tensor: torch.Tensor, buffer: bool) -> str:
    """Return the name of a place after a call: what it is, and where."""
    at = place.removesuffix(".grad").lstrip(".")
    if place.endswith(".grad"):
        return f"gradient of {at}"
    if place.startswith("input "):
        return f"{at} after the call"
    if isinstance(tensor, torch.nn.Parameter):
        return f"parameter {at} after the call"
    return f"buffer {at}" if buffer else f"{at} after the call"


def _values(
    returned: dict[str, Any], held: dict[str, torch.Tensor], whole: bool
) -> dict[str, Place]:
    """Return the value at each place of a result, and what it shares memory with."""
    before = {p: t for p, t in held.items() if not p.endswith(".grad")}
    found = {}
    for name, result in returned.items():
        for place, leaf in _leaves(name, result):
            value, form = leaf, {"type": type(leaf).__name__}
            is_int64 = isinstance(leaf, int) and leaf.bit_length() < 64
            if isinstance(leaf, torch.Tensor):
                value, kind, more = _tensor(leaf, before)
                form = {"type": kind, **_form(value), **(more if whole else {})}
                before[place] = leaf
            elif isinstance(leaf, (float, complex)) or is_int64:
                value = torch.tensor(leaf, dtype=_WIDE.get(type(leaf)))
                form |= _form(value)
            elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "bif":
                value = torch.from_numpy(leaf.copy())
                form |= _form(value)
            if not whole or isinstance(leaf, (torch.Tensor, *_PLAIN)):
                found[place] = Place(value, form)
    return found


def values_of(result: Any) -> list[torch.Tensor]:
    """Return copies of the tensors of *result*, and its numbers as tensors."""
    values = (one.value for one in _values({"": result}, {}, False).values())
    return [value for value in values if isinstance(value, torch.Tensor)]


def _form(tensor: torch.Tensor) -> dict[str, Any]:
    return {"dtype": tensor.dtype, "shape": tensor.shape}


_WIDE = {float: torch.float64, complex: torch.complex128}


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each tensor, number and text of a result, by its place."""
    for path, leaf in pytree.tree_leaves_with_path(value, _nameless):
        place = name + pytree.keystr(path)
        if isinstance(leaf, (torch.Tensor, *_PLAIN)):
            yield place, leaf
        elif _nameless(leaf):
            parts, _ = pytree.SUPPORTED_NODES[type(leaf)].flatten_fn(leaf)
            keys = leaf if isinstance(leaf, Mapping) else range(len(parts))
            for key, part in zip(keys, parts, strict=True):
                yield from _leaves(f"{place}[{key!r}]", part)
        else:
            found = [
                (at, one)
                for at, one in placed({place: leaf})
                if isinstance(one, torch.Tensor) and not at.endswith(".grad")
            ]
            yield from found
            if not found and type(leaf).__eq__ is not object.__eq__:
                yield place, leaf  # such as a Counter


def _nameless(value: Any) -> bool:
    """Return whether a library told torch how to open this, but not its places."""
    # So does diffusers, of all that its models return.
    node = pytree.SUPPORTED_NODES.get(type(value))
    return node is not None and node.flatten_with_keys_fn is None


def _tensor(
    tensor: torch.Tensor, before: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, str, dict[str, Any]]:
    """Return a copy of a tensor, its kind, and the fields that eager's has, too."""
    if tensor.is_meta:
        raise InputError("a tensor on meta has no numbers: make it on the cpu")
    fields = {"requires_grad": tensor.requires_grad}
    if tensor.is_nested or tensor.layout is not torch.strided:
        dense = tensor.values() if tensor.is_nested else tensor.to_dense()
        kind = f"{str(tensor.layout).removeprefix('torch.')} tensor"
        return dense.detach().clone(), kind, fields
    memory = memory_of(tensor)
    known = [(p.lstrip("."), t) for p, t in before.items()]
    same = [p for p, t in known if t is tensor]
    sharing = sorted(p for p, t in known if memory == memory_of(t) != 0)
    fields["identity"] = f"is {same[0]}" if same else "new"
    fields["alias"] = f"shares {', '.join(sharing)}" if sharing else "own"
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    # Of a dimension of 1, and where nothing is in it, a stride says nothing.
    strides = [step for size, step in sizes if size > 1 and tensor.numel()]
    return tensor.detach().clone(), "tensor", {**fields, "stride": tuple(strides)}


def same_plain(x: Any, y: Any) -> bool:
    """Return whether numbers and texts are equal, in order; floats up to rounding."""
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return x == y or math.isclose(x, y, rel_tol=_ROUGHLY, abs_tol=_ROUGHLY**2)
    if isinstance(x, dict):
        x, y = [*x.items()], [*y.items()]
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(same_plain, x, y))
    return x == y
