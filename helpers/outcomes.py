"""What calls give: the value at each place, and what shares memory with what.

A `Trial` runs one side over all calls in order, or one call alone, each time from the
same state.  It keeps copies, which a later call cannot overwrite.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch.utils import _pytree as pytree

from . import _torch, correctness
from .errors import CompiledRaises, InputError, one_line
from .session import has_values, placed, restored
from .tensors import clone, tensors

Call = tuple[tuple[Any, ...], dict[str, Any]]
Detail = Literal["all", "values", "numbers"]
"""What of a call is kept.

``all`` is for one program run in two ways: types, strides and aliases count, too.
``values`` is for two functions, and ``numbers`` leaves out texts and Python types.
"""
_PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), range, set, frozenset),
    *(torch.dtype, torch.device, torch.Size),
)


@dataclass(frozen=True)
class Value:
    """What stands at one place of a result: a copy, and what else belongs to it.

    *value* is a tensor, also of a number, or what is no number.  *itself* is the place
    of the tensor that it is, if it stood somewhere before, and *shares* has the places
    whose memory it uses.
    """

    value: Any
    kind: str
    stride: tuple[int, ...] = ()
    contiguous: bool = True
    requires_grad: bool = False
    itself: str = ""
    shares: tuple[str, ...] = ()


@dataclass(frozen=True)
class Left:
    """A tensor that is held after a call: by how much it changed, or all of a new one.

    *known* is the id of one that was there before the first call, and 0 of a new one.
    *change* is None where nothing changed.  Below *noise*, a change is rounding.
    """

    known: int
    shape: torch.Size
    dtype: torch.dtype
    change: torch.Tensor | None
    noise: float

    @property
    def changed(self) -> bool:
        return self.change is not None


@dataclass(frozen=True)
class Outcome:
    """What one call gave, or raised, and what it left behind.

    *stage* is ``the call`` or ``the backward``: where it raised.  *kind* is the type of
    what it returned.  *lists* has, of each list that was changed, what is in it and no
    tensor: whole numbers and texts, for others may be rounded.
    """

    error: BaseException | None = None
    stage: str = "the call"
    kind: str = ""
    results: dict[str, Value] = field(default_factory=dict)
    left: dict[str, Left] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)

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
    as well.  *model* is what *eager* runs, if that only wraps it.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        eager: Callable[..., Any],
        compiled: Callable[..., Any],
        *,
        gradients: bool | Callable[[Any], torch.Tensor] = False,
        detail: Detail = "all",
        model: Any = None,
    ) -> None:
        self.eager, self.compiled, self.detail = eager, compiled, detail
        self.model = eager if model is None else model
        self.gradients = gradients
        self.calls = clone(list(calls))  # once: what they share, they share here
        if gradients is True:
            for tensor in tensors(self.calls):
                if tensor.is_floating_point() and tensor.is_leaf:
                    tensor.requires_grad_()
        self.state = restored(self.model, eager, compiled, self.calls)
        self.old = {id(tensor): value for tensor, _, value in self.state.values}
        self.order = {key: position for position, key in enumerate(self.old)}
        self._tables = {id(t): _plain(b) for t, b in self.state.tables}

    def call(self, fn: Callable[..., Any], number: int = 0) -> Callable[[], Any]:
        """Put the state back, and return a call of *fn* without arguments."""
        with self.state:
            pass
        inputs, kwargs = self.calls[number]
        return partial(fn, *inputs, **kwargs)

    def round(
        self,
        fn: Callable[..., Any],
        only: int | None = None,
        *,
        seed: int = 0,
        around: Callable[[Any], AbstractContextManager] = nullcontext,
        run: Callable[[Callable[[], Any]], Any] = lambda call: call(),
    ) -> dict[int, Outcome]:
        """Return the outcome of each call of *fn*, in order, or of *only* one.

        *around* is entered with all that the calls can reach, after the state is put
        back, and around the calls.  *run* runs each call.
        """
        with self.state:
            pass
        numbers = range(len(self.calls)) if only is None else [only]
        with self.state, around((fn, self.calls)):
            return {n: self._call(fn, n, seed, run) for n in numbers}

    def outcome(self, side: str, fn: Callable[..., Any], **how: Any) -> Outcome:
        """Return the outcome of the first call, `checked`."""
        return checked(side, self.round(fn, 0, **how)[0])

    def _call(
        self, fn: Callable[..., Any], number: int, seed: int, run: Callable
    ) -> Outcome:
        inputs, kwargs = self.calls[number]
        stage, returned = "the call", {}
        with correctness.seeded(seed + number):
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
        held, lists = dict(self._held(model, number)), dict[str, list[Any]]()
        for place in [p for p, item in held.items() if isinstance(item, (list, deque))]:
            now = _plain(table := held.pop(place))
            if self._tables.get(id(table), now) != now:
                lists[f"{_bare(place)} after the call"] = now
        left = self._left(model, held)
        found = _values(returned, held, self.detail)
        if self.detail == "all":
            return Outcome(None, stage, type(result).__name__, found, left, lists)
        given = {p: now for p, now in lists.items() if p.startswith("input ")}
        return Outcome(None, stage, "", found, left, given if self.plain else {})

    @property
    def plain(self) -> bool:
        """Whether texts and Python types count."""
        return self.detail != "numbers"

    def _loss(self, result: Any) -> torch.Tensor | None:
        """Return the loss of *result*, if a backward belongs to the call."""
        if callable(self.gradients):
            return self.gradients(result)
        known = self.gradients and any(t.requires_grad for t in tensors(result))
        return correctness.weighted_sum(result) if known else None

    def _held(self, model: Any, number: int) -> Iterator[tuple[str, Any]]:
        """Yield each tensor and list that a call can reach, by its place."""
        roots = self._arguments(number) | {"": model}
        for place, item in placed(roots):
            if isinstance(item, (torch.Tensor, list, deque)):
                yield place, item

    def _arguments(self, number: int) -> dict[str, Any]:
        """Return the inputs of a call by the names that eager has for them."""
        inputs, kwargs = self.calls[number]
        try:
            signature = inspect.signature(getattr(self.model, "forward", self.model))
            given = signature.bind(*inputs, **kwargs).arguments
        except (TypeError, ValueError):  # no signature, as of a builtin
            given = {**dict(enumerate(inputs)), **kwargs}
        return {f"input {name}": value for name, value in given.items()}

    def _left(self, model: Any, held: dict[str, torch.Tensor]) -> dict[str, Left]:
        """Return the tensors that are left behind, by the name of each place."""
        dense = {p: t for p, t in held.items() if has_values(t)}
        values = [t.detach() for t in dense.values()]
        changes = [
            correctness.change_of(value, self.old.get(id(t)))
            for t, value in zip(dense.values(), values, strict=True)
        ]
        noise = correctness.noise_of(list(dense.values()), changes)
        module = isinstance(model, torch.nn.Module)
        buffers = {id(b) for b in model.buffers()} if module else set()
        return {
            _named(place, t, id(t) in buffers): Left(
                id(t) if id(t) in self.old else 0, t.shape, t.dtype, change, below
            )
            for (place, t), change, below in zip(
                dense.items(), changes, noise, strict=True
            )
        }

    def paired(self, x: Outcome, y: Outcome) -> tuple[Outcome, Outcome]:
        """Return both with one name for what belongs together.

        Two functions name what they hold in two ways, and each may have a model:
        what counts is the order.  Where one holds more, what was changed is paired.
        """
        if self.detail == "all" or x.error or y.error:
            return x, y
        results = y.results
        if not self.plain and len(results) == len(x.results):
            results = dict(zip(x.results, results.values(), strict=True))
        ours, theirs = map(self._in_order, (x.left, y.left))
        forms = [[(one.shape, one.dtype) for _, one in side] for side in (ours, theirs)]
        if forms[0] != forms[1]:
            ours, theirs = (
                [s for s in side if s[1].changed] for side in (ours, theirs)
            )
        if len(ours) == len(theirs):
            theirs = [
                (place, replace(other, known=one.known))
                for (place, one), (_, other) in zip(ours, theirs, strict=True)
            ]
        return (
            replace(x, left=dict(ours)),
            replace(y, results=results, left=dict(theirs)),
        )

    def _in_order(self, left: dict[str, Left]) -> list[tuple[str, Left]]:
        """Return the tensors in the order of the state; new ones follow."""
        last = len(self.order)
        return sorted(left.items(), key=lambda one: self.order.get(one[1].known, last))


def checked(side: str, outcome: Outcome) -> Outcome:
    """Return *outcome*; *side* names its function in errors.

    Raises InputError where the function failed, or nothing shows what it computes.
    """
    if isinstance(outcome.error, (InputError, SystemExit)):
        raise outcome.error
    if outcome.error:
        raise _failed(side, outcome.error) from outcome.error
    if not outcome.tensors and not any(one.changed for one in outcome.left.values()):
        raise InputError(
            f"the {side} function returned no tensor or number, and changed none, so "
            "nothing shows that both sides compute the same: return a result"
        )
    return outcome


def _failed(side: str, error: BaseException) -> InputError:
    """Return the error to raise when the function of one *side* raised."""
    if promise := _torch.broken_promise(error):
        return CompiledRaises(promise)
    advice = {
        "eager": "Call it by itself first and fix that; there is nothing to time yet.",
        "compiled": f"Eager ran, so compiling failed: `python -m {__package__} doctor` "
        "checks the compiler and triton, and graphs(fn, *inputs) shows how far Dynamo "
        "came.",
    }
    kind = CompiledRaises if side == "compiled" else InputError
    return kind(f"the {side} function raised {one_line(error)}\n{advice[side]}")


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
    returned: dict[str, Any], held: dict[str, torch.Tensor], detail: Detail
) -> dict[str, Value]:
    """Return the value at each place of a result, and what it shares memory with."""
    before = {p: t for p, t in held.items() if not p.endswith(".grad")}
    found = {}
    for name, result in returned.items():
        for place, leaf in _leaves(name, result):
            if isinstance(leaf, torch.Tensor):
                value = _tensor(leaf, before)
                before[place] = leaf
            elif _is_number(leaf):
                number = torch.tensor(leaf, dtype=_WIDE.get(type(leaf)))
                value = Value(number, type(leaf).__name__)
            elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "bif":
                value = Value(torch.from_numpy(leaf.copy()), "ndarray")
            else:
                value = Value(leaf, type(leaf).__name__)
            if not isinstance(leaf, (torch.Tensor, *_PLAIN)) and detail != "values":
                continue
            if detail == "all":
                found[place] = value
            elif detail == "values":
                found[place] = Value(value.value, value.kind)
            elif isinstance(value.value, torch.Tensor):
                found[place] = Value(value.value, "")
    return found


def _is_number(leaf: Any) -> bool:
    """Return whether *leaf* is a number that a tensor can hold."""
    whole = isinstance(leaf, int) and leaf.bit_length() < 64
    return whole or isinstance(leaf, (float, complex))


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
    """Return whether a library told torch how to open this, but not its places.

    So does diffusers of all that its models return.
    """
    node = pytree.SUPPORTED_NODES.get(type(value))
    return node is not None and node.flatten_with_keys_fn is None


def _tensor(tensor: torch.Tensor, before: dict[str, torch.Tensor]) -> Value:
    if tensor.is_meta:
        raise InputError("a tensor on meta has no numbers: make it on the cpu")
    if tensor.is_nested or tensor.layout is not torch.strided:
        dense = tensor.values() if tensor.is_nested else tensor.to_dense()
        kind = f"{str(tensor.layout).removeprefix('torch.')} tensor"
        copy = dense.detach().clone()
        return Value(copy, kind, requires_grad=tensor.requires_grad)
    memory = _memory(tensor)
    same = [p for p, t in before.items() if t is tensor]
    sharing = [p for p, t in before.items() if memory and _memory(t) == memory]
    return Value(
        tensor.detach().clone(),
        "tensor",
        _strides(tensor),
        tensor.is_contiguous(),
        tensor.requires_grad,
        itself=_bare(same[0]) if same else "",
        shares=tuple(sorted(map(_bare, sharing))),
    )


def _plain(table: Iterable[Any]) -> list[Any]:
    return [one for one in table if isinstance(one, (int, str))]


def _bare(place: str) -> str:
    return place.lstrip(".")


def _memory(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's memory, and 0 for one without."""
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.numel():
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a subclass without memory
        return 0


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides that say something: those of dimensions longer than 1."""
    if not tensor.numel():
        return ()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in sizes if size > 1)
