"""What the calls of a model give: what stands at each place, and what shares memory.

A `Bench` runs one side over all calls in order, or one call alone, each time from the
same state.  What it saw are copies, which a later call cannot overwrite.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from .helpers import _torch, correctness
from .helpers.errors import InputError
from .helpers.session import placed, restored
from .helpers.tensors import clone

if TYPE_CHECKING:
    from .patient import Call, Patient

_PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, type(None))


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


@dataclass(frozen=True)
class Seen:
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


class Bench:
    """A model and its calls, and the state that each round of them begins with."""

    def __init__(self, p: Patient, calls: Sequence[Call], *sides: Callable) -> None:
        self.p = p
        self.calls = clone(list(calls))  # once: what they share, they share here
        self.state = restored(*sides, self.calls)
        self.old = {id(tensor): value for tensor, _, value in self.state.values}
        self.tables = {id(t): _plain(b) for t, b in self.state.tables}

    def round(
        self,
        fn: Callable[..., Any],
        only: int | None = None,
        seed: int = 0,
        around: Callable[[Any], AbstractContextManager] = nullcontext,
    ) -> dict[int, Seen]:
        """Return what each call of *fn* gives, in order, or *only* one by itself.

        *around* is entered with all that the calls can reach, after the state is put
        back, and around the calls.
        """
        with self.state:
            pass
        numbers = range(len(self.calls)) if only is None else [only]
        with self.state, around((fn, self.calls)):
            return {n: self._call(fn, n, seed) for n in numbers}

    def _call(self, fn: Callable[..., Any], number: int, seed: int) -> Seen:
        inputs, kwargs = self.calls[number]
        stage, returned = "the call", {}
        with correctness.seeded(seed + number):
            try:
                returned["output"] = result = fn(*inputs, **kwargs)
                if self.p.train:
                    loss = self.p.loss(result)
                    if loss is not result:
                        returned["the loss"] = loss
                    stage = "the backward"
                    loss.backward()
            except (Exception, SystemExit) as error:
                return Seen(error.with_traceback(None), stage)
        model = self.p.fn if fn is self.p.eager else _torch.unwrap(fn)
        held, lists = dict(self._held(model, number)), dict[str, list[Any]]()
        for place in [p for p, item in held.items() if isinstance(item, (list, deque))]:
            now = _plain(table := held.pop(place))
            if self.tables.get(id(table), now) != now:
                lists[f"{_bare(place)} after the call"] = now
        kind, left = type(result).__name__, self._left(model, held)
        return Seen(None, stage, kind, _values(returned, held), left, lists)

    def _held(
        self, model: Callable[..., Any], number: int
    ) -> Iterator[tuple[str, Any]]:
        """Yield each tensor and list that a call could reach, by its place."""
        roots = _arguments(model, self.calls[number]) | {"": model}
        for place, item in placed(roots):
            if isinstance(item, (torch.Tensor, list, deque)):
                yield place, item

    def _left(
        self, model: Callable[..., Any], held: dict[str, torch.Tensor]
    ) -> dict[str, Left]:
        """Return what is left behind, by the name of each place."""
        dense = {p: t for p, t in held.items() if t.layout is torch.strided}
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


def _arguments(model: Callable[..., Any], call: Call) -> dict[str, Any]:
    """Return what a call is given, each by its name in the signature, or its place."""
    inputs, kwargs = call
    try:
        signature = inspect.signature(getattr(model, "forward", model))
        given = signature.bind(*inputs, **kwargs).arguments
    except (TypeError, ValueError):  # no signature, as of a builtin
        given = {**dict(enumerate(inputs)), **kwargs}
    return {f"input {name}": value for name, value in given.items()}


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


def _values(returned: dict[str, Any], held: dict[str, torch.Tensor]) -> dict:
    """Return what was returned, each place by itself, and what each one shares."""
    before = {p: t for p, t in held.items() if not p.endswith(".grad")}
    found = {}
    for name, result in returned.items():
        for place, leaf in _leaves(name, result):
            if isinstance(leaf, torch.Tensor):
                found[place] = _tensor(leaf, before)
                before[place] = leaf
            elif isinstance(leaf, (bool, int, float, complex)):
                number = torch.tensor(leaf)
                wide = isinstance(leaf, (float, complex))
                number = torch.tensor(leaf, dtype=_WIDE[type(leaf)]) if wide else number
                found[place] = Value(number, type(leaf).__name__)
            else:
                found[place] = Value(leaf, type(leaf).__name__)
    return found


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
            for at, one in placed({place: leaf}):
                if isinstance(one, torch.Tensor) and not at.endswith(".grad"):
                    yield at, one


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
    """Return what is equal for tensors that share memory, and 0 for one without."""
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.numel():
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a subclass without memory of its own
        return 0


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides that say something: those of dimensions longer than 1."""
    if not tensor.numel():
        return ()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in sizes if size > 1)


def shown(value: float | complex | bool) -> str:
    """Return a number as it is written in a report."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
