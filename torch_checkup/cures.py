"""What may cure a recompile or a graph break: it is applied to the model, and counted.

A `Cure` is a line to write, and how the check-up does the same.  `versions` counts what
calls compile with it, `captured_with` what is captured: without kernels, for Dynamo
alone decides both.  A cure whose answers are not eager's has no count.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .helpers import correctness, text
from .helpers.capture import Graphs, Guard, Watch, graphs
from .helpers.session import compile_apart, undisturbed
from .patient import Call, Patient

Compiling = Callable[..., Callable[..., Any]]
"""What compiles the model, with options of ``torch.compile``."""


@dataclass(frozen=True)
class Cure:
    """A *line* to write, and how to do the same here.

    *settings* are of ``torch._dynamo.config``, *options* of ``torch.compile``.  *calls*
    changes the inputs, *order* that of the first calls.  *around* stands around all
    calls, *before* happens before each.
    """

    line: str
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    calls: Callable[[list[Call]], list[Call]] = list
    order: tuple[int, ...] = ()
    around: Callable[[], AbstractContextManager] = nullcontext
    before: Callable[[], object] = bool
    costs: str = ""


# ------------------------------------------------------------------------- versions


@dataclass(frozen=True)
class Versions:
    """How many versions calls need, whether these end, and which guards failed."""

    count: int
    limit_hit: bool
    ends: bool
    failed: tuple[Guard, ...] = ()

    @property
    def ill(self) -> tuple[bool, int]:
        """How ill the model is: without an end, and by versions."""
        return self.limit_hit or not self.ends, self.count

    def __str__(self) -> str:
        limit = " and the recompile limit" if self.limit_hit else ""
        return f"{text.count(self.count, 'version')}{limit}"

    def then(self, other: Versions) -> str:
        """Return in words what became of these: ``3 versions, then 1``."""
        limit = " and the recompile limit" if other.limit_hit else ""
        return f"{self}, then {other.count}{limit}"


def versions(
    p: Patient, cure: Cure, compiling: Compiling | None, rounds: int
) -> Versions | None:
    """Return the versions of all calls with a *cure*, *rounds* times in turn.

    None, where an answer is not eager's.  Raises what the model does, and what the
    compiler does where a promise of the cure is broken.
    """
    compiling = compiling or partial(compile_apart, p.fn)
    order = cure.order or tuple(range(len(p.calls)))
    usual, watches = _eager(p, order), list[Watch]()
    with undisturbed(p.fn), _with(cure), correctness.seeded(0):
        compiled = compiling(backend="eager", **cure.options)
        for turn in range(rounds):
            calls = cure.calls(p.calls)  # at once, for they may share a state
            for number in order:
                cure.before()
                with Watch() as watch:
                    answer = answer_of(compiled, calls[number])
                watches.append(watch)
                if not turn and not near(answer, usual[number]):
                    return None
    return Versions(
        sum(watch.compiles for watch in watches),
        any(watch.limit_hit for watch in watches),
        not any(watch.compiles for watch in watches[-len(order) :]),
        tuple(guard for watch in watches for guard in watch.failed),
    )


@contextmanager
def _with(cure: Cure) -> Iterator[None]:
    """Do around a block what a cure does, and put the global settings back."""
    with kept_settings(), torch._dynamo.config.patch(cure.settings), cure.around():
        yield


def _eager(p: Patient, order: Sequence[int]) -> dict[int, list[torch.Tensor]]:
    """Return what eager code gives for each call, in this order."""
    with undisturbed(p.fn), kept_settings(), correctness.seeded(0):
        calls = p.calls
        return {number: answer_of(p.eager, calls[number]) for number in order}


def answer_of(fn: Callable[..., Any], call: Call) -> list[torch.Tensor]:
    """Return the tensors that a call of *fn* returns."""
    inputs, kwargs = call
    return correctness.values_of(fn(*inputs, **kwargs))


def near(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    """Return whether tensors are roughly equal: a stale answer is off by more."""
    return [t.shape for t in some] == [t.shape for t in others] and all(
        correctness.close(a.to(b.dtype), b, rtol=1e-2, atol=1e-3)
        for a, b in zip(some, others, strict=True)
    )


# -------------------------------------------------------------------------- settings


def _state(module: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return partial(getattr, module, name), partial(setattr, module, name)


_FP16 = "allow_fp16_reduced_precision_reduction"
_MATMUL = torch.backends.cuda.matmul
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str]] = {
    # torch's name of a global setting: how to ask, how to set, and what sets it
    "grad_mode": (
        torch.is_grad_enabled,
        torch.set_grad_enabled,
        "torch.set_grad_enabled, no_grad() or inference_mode()",
    ),
    "num_threads": (
        torch.get_num_threads,
        torch.set_num_threads,
        "torch.set_num_threads",
    ),
    "default_dtype": (
        torch.get_default_dtype,
        torch.set_default_dtype,
        "torch.set_default_dtype",
    ),
    "deterministic_algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        "torch.use_deterministic_algorithms",
    ),
    "autocast": (
        partial(torch.is_autocast_enabled, "cpu"),
        partial(torch.set_autocast_enabled, "cpu"),
        "torch.autocast",
    ),
    "allow_tf32": (
        *_state(_MATMUL, "allow_tf32"),
        "torch.backends.cuda.matmul.allow_tf32",
    ),
    "allow_fp16_reduce": (
        *_state(_MATMUL, _FP16),
        f"torch.backends.cuda.matmul.{_FP16}",
    ),
}


@contextmanager
def kept_settings() -> Iterator[dict[str, Any]]:
    """Put the global settings back after the block; yields what they are before it."""
    before = {name: ask() for name, (ask, _, _) in SETTINGS.items()}
    try:
        yield before
    finally:
        for name, value in before.items():
            ask, put, _ = SETTINGS[name]
            if ask() != value:
                put(value)


def settings_kept(names: Sequence[str]) -> Cure | None:
    """Return the cure that fixes global settings before the first call."""
    known = [name for name in names if name in SETTINGS]
    if not known:
        return None
    first = {name: SETTINGS[name][0]() for name in known}

    def before() -> None:
        for name, value in first.items():
            SETTINGS[name][1](value)

    how = "; ".join(SETTINGS[name][2] for name in known)
    return Cure(f"{how}: once, before the first call, and not again", before=before)


# --------------------------------------------------------------------------- capture

_SWITCH = re.compile(
    r"torch\._dynamo\.(?:config\.)?(\w+)`?(?: *= *| to )`?(True|False)\b"
)


def switches(words: str) -> list[Cure]:
    """Return the switches of ``torch._dynamo.config`` that torch's *words* name."""
    found = dict(_SWITCH.findall(words))
    return [
        Cure(f"torch._dynamo.config.{name} = {value}", {name: value == "True"})
        for name, value in found.items()
        if hasattr(torch._dynamo.config, name)
    ]


def captured_with(p: Patient, cure: Cure, number: int) -> Graphs:
    """Return what is captured of a call of the patient's with a *cure*."""
    with undisturbed(p.fn), _with(cure):
        inputs, kwargs = cure.calls(p.calls)[number]
        cure.before()
        return graphs(p.fn, *inputs, **kwargs)


def stopped(found: Graphs) -> tuple[bool, int]:
    """Return how much is not captured: all of it, or the number of graph breaks."""
    return not found.count, len(found.breaks)


def captures(before: Graphs, after: Graphs) -> str:
    """Return in words what became of breaks and graphs."""
    were, are = (text.count(one.count, "graph") for one in (before, after))
    breaks = text.count(len(before.breaks), "break")
    return f"{breaks} in {were}, then {len(after.breaks)} in {are}"


def agrees(p: Patient, cure: Cure, number: int) -> bool:
    """Return whether a call has eager's answer with a *cure*, without kernels."""
    with undisturbed(p.fn), _with(cure), correctness.seeded(0):
        cure.before()
        compiled = compile_apart(p.fn, backend="eager")
        answer = answer_of(compiled, cure.calls(p.calls)[number])
    return near(answer, _eager(p, [number])[number])


def together(cures: Sequence[Cure]) -> Cure:
    """Return all *cures* at once."""

    def calls(given: list[Call]) -> list[Call]:
        return functools.reduce(lambda calls, cure: cure.calls(calls), cures, given)

    @contextmanager
    def around() -> Iterator[None]:
        with ExitStack() as stack:
            for cure in cures:
                stack.enter_context(cure.around())
            yield

    lines = dict.fromkeys(cure.line for cure in cures)
    return Cure(
        f"all at once: {'; '.join(lines)}",
        {name: value for cure in cures for name, value in cure.settings.items()},
        {name: value for cure in cures for name, value in cure.options.items()},
        calls,
        next((cure.order for cure in cures if cure.order), ()),
        around,
        lambda: [cure.before() for cure in cures],
        "; ".join(cure.costs for cure in cures if cure.costs),
    )


# ---------------------------------------------------------------------------- inputs


def named(p: Patient, call: Call) -> Iterator[tuple[str, Any]]:
    """Yield each leaf of a call's inputs, with its name inside the model's forward."""
    arguments = _bound(p, call).arguments
    for (argument, *path), leaf in pytree.tree_leaves_with_path(arguments):
        yield argument.key + pytree.keystr(path), leaf


def changed(
    p: Patient, change: Callable[[str, Any], Any], calls: Sequence[Call]
) -> list[Call]:
    """Return *calls* with what *change* makes of each leaf and its name."""
    new = []
    for call in calls:
        bound = _bound(p, call)
        bound.arguments = pytree.tree_map_with_path(
            lambda path, leaf: change(path[0].key + pytree.keystr(path[1:]), leaf),
            dict(bound.arguments),
        )
        new.append((bound.args, bound.kwargs))
    return new


def varying(p: Patient) -> dict[str, list[int]]:
    """Return the dimensions of each tensor whose size is another in another call."""
    shapes = defaultdict[str, list[torch.Size]](list)
    with suppress(TypeError, ValueError):  # no signature, as of a builtin
        for call in p.calls:
            for name, leaf in named(p, call):
                if isinstance(leaf, torch.Tensor):
                    shapes[name].append(leaf.shape)
    found = {}
    for name, seen in shapes.items():
        if len({len(shape) for shape in seen}) == 1:
            columns = enumerate(zip(*seen, strict=True))
            found[name] = [d for d, sizes in columns if len(set(sizes)) > 1]
    return {name: dimensions for name, dimensions in found.items() if dimensions}


def marked(p: Patient, kind: str = "mark_dynamic") -> Iterator[Cure]:
    """Yield the cure that marks, in the first call, all sizes that vary."""
    varies = varying(p)
    mark = operator.attrgetter(kind)(torch._dynamo)

    def marks(calls: list[Call]) -> list[Call]:
        for name, leaf in named(p, calls[0]):
            if name in varies:
                mark(leaf, varies[name])
        return calls

    lines = [
        f"torch._dynamo.{kind}({name}, {sizes[0] if len(sizes) == 1 else sizes})"
        for name, sizes in varies.items()
    ]
    if lines:
        yield Cure(f"before the first call: {'; '.join(lines)}", calls=marks)


def given(p: Patient, name: str) -> Iterator[Cure]:
    """Yield the cure that makes a tensor of a number among a call's arguments.

    *name* is an argument, or stands in one: ``n``, ``batch['scale']``, ``config.n``.
    """

    def tensors(calls: list[Call]) -> list[Call]:
        new = []
        for call in calls:
            bound = _bound(p, call)
            _made_tensor(name, bound.arguments)
            new.append((bound.args, bound.kwargs))
        return new

    if any(_number(name, _bound(p, call).arguments) is not None for call in p.calls):
        yield Cure(f"pass {name} as a tensor, torch.tensor({name})", calls=tensors)


def held(p: Patient, name: str) -> Iterator[Cure]:
    """Yield the cure that makes a tensor of a number that the model holds.

    *name* begins with ``self``, or what its owner calls it: that may be any module of
    the model, or an object that its function knows, such as an optimizer.
    """
    root = re.match(r"\w+", name)[0]
    known = inspect.getclosurevars(inspect.unwrap(getattr(p.fn, "forward", p.fn)))
    owners = p.module.modules() if p.module else ()
    owners = [*owners, *known.nonlocals.values(), *known.globals.values()]

    @contextmanager
    def tensors() -> Iterator[None]:
        for owner in owners:
            _made_tensor(name, {root: owner})
        yield

    if root != name and any(
        _number(name, {root: owner}) is not None for owner in owners
    ):
        yield Cure(f"make {name} a tensor, torch.tensor({name})", around=tensors)


def _bound(p: Patient, call: Call) -> inspect.BoundArguments:
    """Return the arguments of a call by the names that the model's forward has."""
    signature = inspect.signature(getattr(p.fn, "forward", p.fn))
    return signature.bind(*call[0], **call[1])


def _number(name: str, scope: dict[str, Any]) -> float | None:
    """Return the number that has a *name* in this scope, if one has."""
    with suppress(Exception):
        value = eval(name, dict(scope))
        return value if isinstance(value, (int, float)) else None
    return None


def _made_tensor(name: str, scope: dict[str, Any]) -> None:
    """Put a tensor in the place of the number that has a *name*, if one has."""
    if (value := _number(name, scope)) is not None:
        whole = {**scope, "_tensor": torch.tensor(value)}
        exec(f"{name} = _tensor", whole)
        scope.update((key, whole[key]) for key in scope)


def dynamic() -> Iterator[Cure]:
    """Yield the cure that takes all sizes to vary."""
    yield Cure("torch.compile(model, dynamic=True)", options={"dynamic": True})
