"""Options: what a user may change, how the check-up does the same, and what it brings.

`tried` counts with an option and without.  `versions` counts what calls compile, and
`captured` what is captured: without kernels, because Dynamo alone decides both.  An
option whose answers are not eager's does not help.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .helpers import correctness, text
from .helpers.capture import Graphs, Guard, Watch, graphs
from .helpers.session import compile_apart, undisturbed
from .model import Call, Model, answer_of, near, without_backward

_NO_KERNELS = {"backend": "eager"}


@dataclass(frozen=True)
class Option:
    """A *line* to write, and how to do the same in the check-up.

    *settings* are of ``torch._dynamo.config``, *options* of ``torch.compile``.  *calls*
    changes the inputs.  *around* is around all calls, *before* is called before each.
    """

    line: str
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    calls: Callable[[list[Call]], list[Call]] = list
    around: Callable[[], Any] = nullcontext
    before: Callable[[], object] = bool
    costs: str = ""

    @contextmanager
    def on(self) -> Iterator[None]:
        """Do around a block what the option does, and put global settings back."""
        with kept_settings(), torch._dynamo.config.patch(self.settings), self.around():
            yield


@dataclass(frozen=True)
class Captured:
    """What is captured of a call."""

    graphs: Graphs

    @property
    def issues(self) -> tuple[bool, int]:
        """How much is wrong: whether nothing is captured, and the graph breaks."""
        return not self.graphs.count, len(self.graphs.breaks)

    def then(self, other: Captured) -> str:
        """Return both in words: ``1 break in 2 graphs, then 0 in 1 graph``."""
        were, are = (text.count(one.graphs.count, "graph") for one in (self, other))
        breaks = text.count(self.issues[1], "break")
        return f"{breaks} in {were}, then {other.issues[1]} in {are}"


@dataclass(frozen=True)
class Versions:
    """How many versions calls need, whether these end, and which guards failed.

    *breaks* are the kinds of graph break, where these were counted.
    """

    count: int
    limit_hit: bool
    ends: bool
    failed: tuple[Guard, ...] = ()
    breaks: int | None = None

    @property
    def issues(self) -> tuple[bool, int]:
        """How much is wrong: whether it has no end, and the versions."""
        return self.limit_hit or not self.ends, self.count

    def then(self, other: Versions) -> str:
        """Return both in words: ``3 versions, then 1``."""
        limits = [" and the recompile limit" * one.limit_hit for one in (self, other)]
        if self.count == other.count and other.ends and not (self.ends or limits[0]):
            limits[0] = " and another in each round"
        versions = text.count(self.count, "version")
        # As where an ``if`` or ``.item()`` needs the number that a tensor holds.
        more = 0 if self.breaks is None else (other.breaks or 0) - self.breaks
        new = f" with {text.count(more, 'more graph break')}" if more > 0 else ""
        return f"{versions}{limits[0]}, then {other.count}{limits[1]}{new}"


@dataclass(frozen=True)
class Tried:
    """An option, the counts *before* and *after*, and whether answers are eager's.

    *after* is None where it raised, and *why* has the message.
    """

    option: Option
    before: Any
    after: Any = None
    agrees: bool | None = None
    why: str = ""

    @property
    def ran(self) -> bool:
        """Whether it raised nothing, and no answer was found to differ."""
        return self.after is not None and self.agrees is not False

    @property
    def helps(self) -> bool:
        """Whether it ran, and fewer are left."""
        return self.ran and self.after.issues < self.before.issues

    @property
    def effect(self) -> str:
        """The counts in words, or that it fails."""
        if self.after is None:
            return f"fails: {self.why:.100}"
        return self.before.then(self.after)


def tried(
    option: Option, before: Any, count: Callable[[Option], tuple[Any, bool | None]]
) -> Tried:
    """Return the effect of an *option*; *count* counts with it and compares answers."""
    try:
        return Tried(option, before, *count(option))
    except Exception as error:  # with this option it raises
        return Tried(option, before, why=str(error))


def captured(m: Model, number: int, option: Option) -> tuple[Captured, bool]:
    """Return the graphs of a call with an option, and whether answers agree."""
    with undisturbed(m.fn), option.on():
        inputs, kwargs = option.calls(m.calls)[number]
        option.before()
        found = Captured(graphs(m.program, *inputs, **kwargs))
    return found, versions(m, 1, option, order=[number])[1]


def builds(m: Model, number: int, option: Option) -> bool:
    """Return whether a call runs with an option on the backend that its owner has."""
    with suppress(Exception), without_backward(m):
        versions(m, 1, option, built(m), [number])
        return True
    return False


def built(m: Model) -> dict[str, str]:
    """Return how the model is compiled with kernels: pieces are given to a backend."""
    return {"backend": "inductor"} if m.in_pieces else {}


def versions(
    m: Model,
    rounds: int,
    option: Option,
    how: Mapping[str, str] = _NO_KERNELS,
    order: Sequence[int] = (),
) -> tuple[Versions, bool]:
    """Return the versions of all calls with an option, and whether answers agree.

    All calls, or those of an *order*, run *rounds* times in turn.  Raises the model's
    exceptions, and the compiler's where the option promises too much.
    """
    order = order or range(len(m.calls))
    usual, watches, agrees = eager_answers(m, order), list[Watch](), True
    with undisturbed(m.fn), option.on(), correctness.seeded(0):
        compiled = compile_apart(m.program, **how, **option.options)
        for turn in range(rounds):
            calls = option.calls(m.calls)  # at once, for they may share a state
            for number in order:
                option.before()
                with Watch() as watch:
                    answer = answer_of(compiled, calls[number])
                watches.append(watch)
                agrees &= bool(turn) or near(answer, usual[number])
    found = Versions(
        sum(watch.compiles for watch in watches),
        any(watch.limit_hit for watch in watches),
        not any(watch.compiles for watch in watches[-len(order) :]),
        tuple(guard for watch in watches for guard in watch.failed),
        max(watch.graph_breaks for watch in watches),
    )
    return found, agrees


def eager_answers(m: Model, order: Sequence[int]) -> dict[int, list[torch.Tensor]]:
    """Return the answers of eager code for each call, in this order."""
    with undisturbed(m.fn), kept_settings(), correctness.seeded(0):
        calls = m.calls
        return {number: answer_of(m.eager, calls[number]) for number in order}


def together(options: Sequence[Option]) -> Option:
    """Return all *options* at once; one by itself is returned as it is."""
    if len(options) == 1:
        return options[0]

    def calls(given: list[Call]) -> list[Call]:
        return functools.reduce(lambda calls, one: one.calls(calls), options, given)

    @contextmanager
    def around() -> Iterator[None]:
        with ExitStack() as stack:
            for option in options:
                stack.enter_context(option.around())
            yield

    return Option(
        f"all at once: {'; '.join(dict.fromkeys(one.line for one in options))}",
        {name: value for one in options for name, value in one.settings.items()},
        {name: value for one in options for name, value in one.options.items()},
        calls,
        around,
        lambda: [one.before() for one in options],
        "; ".join(one.costs for one in options if one.costs),
    )


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    # torch's name of a global setting: how to ask, and how to set
    "grad_mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "num_threads": (torch.get_num_threads, torch.set_num_threads),
    "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
}


@contextmanager
def kept_settings() -> Iterator[None]:
    """Put the global settings back after the block."""
    before = [(ask(), ask, put) for ask, put in SETTINGS.values()]
    try:
        yield
    finally:
        for value, ask, put in before:
            if ask() != value:
                put(value)


def settings_kept(names: Sequence[str]) -> Iterator[Option]:
    """Yield the option that fixes global settings before the first call."""
    known = [SETTINGS[name] for name in names if name in SETTINGS]
    first = [(put, ask()) for ask, put in known]

    def before() -> None:
        for put, value in first:
            put(value)

    if how := "; ".join(f"torch.{put.__name__}" for put, _ in first):
        yield Option(f"{how}: once, before the first call", before=before)


_SWITCH = re.compile(r"torch\._dynamo\.(?:config\.)?(\w+)[` =to]+(True|False)\b")


def switches(words: str) -> list[Option]:
    """Return the switches of ``torch._dynamo.config`` that torch's *words* name."""
    found = dict(_SWITCH.findall(words))
    return [
        Option(f"torch._dynamo.config.{name} = {value}", {name: value == "True"})
        for name, value in found.items()
        if hasattr(torch._dynamo.config, name)
    ]


def named(m: Model, call: Call) -> Iterator[tuple[str, Any]]:
    """Yield each leaf of a call's inputs, with its name inside the model's forward."""
    arguments = _bound(m, call).arguments
    for (argument, *path), leaf in pytree.tree_leaves_with_path(arguments):
        yield argument.key + pytree.keystr(path), leaf


def changed(m: Model, line: str, name: str, change: Callable[[Any], Any]) -> Option:
    """Return the option that changes the leaf with a *name* in all calls."""

    def changed_leaf(path: tuple, leaf: Any) -> Any:
        key = path[0].key + pytree.keystr(path[1:])
        return change(leaf) if key == name else leaf

    def with_leaf(arguments: dict[str, Any]) -> dict[str, Any]:
        return pytree.tree_map_with_path(changed_leaf, dict(arguments))

    return Option(line, calls=partial(_rebound, m, with_leaf))


def filled(m: Model, name: str) -> Iterator[Option]:
    """Yield options that give a tensor where an argument is None, or not given.

    Of ones or zeros, as large as in a call that has it: masks that change nothing.
    """
    like = next((one for one in _seen(m)[name] if isinstance(one, torch.Tensor)), None)
    for make in (torch.ones_like, torch.zeros_like) if like is not None else ():

        def fill(old: Any, make: Callable[..., Any] = make) -> Any:
            return make(like) if old is None else old

        of = f"{tuple(like.shape)}, dtype={like.dtype}"
        line = f"torch.{make.__name__.removesuffix('_like')}({of})"
        yield changed(m, f"give {line} as {name} in place of None", name, fill)


def _rebound(
    m: Model, change: Callable[[dict[str, Any]], dict[str, Any]], calls: Sequence[Call]
) -> list[Call]:
    """Return *calls* with what *change* makes of their arguments by name.

    Those are among them that a call does not give.
    """
    new = []
    for call in calls:
        bound = _bound(m, call)
        bound.apply_defaults()
        bound.arguments = change(bound.arguments)
        new.append((bound.args, bound.kwargs))
    return new


def _seen(m: Model) -> dict[str, list[Any]]:
    """Return what all calls give by each name; nothing without a signature."""
    seen = defaultdict[str, list[Any]](list)
    with suppress(AttributeError, TypeError, ValueError):  # as of a builtin
        for call in m.calls:
            for name, leaf in named(m, call):
                seen[name].append(leaf)
    return seen


def optional(m: Model) -> set[str]:
    """Return the names of what is None, or not given, in some calls."""
    return {
        name
        for name, given in _seen(m).items()
        if len(given) < len(m.calls) or any(leaf is None for leaf in given)
    }


def varying(m: Model) -> dict[str, list[int]]:
    """Return the dimensions of each tensor whose size varies between calls."""
    found = {}
    for name, given in _seen(m).items():
        shapes = [leaf.shape for leaf in given if isinstance(leaf, torch.Tensor)]
        if len({len(shape) for shape in shapes}) == 1:
            columns = enumerate(zip(*shapes, strict=True))
            found[name] = [d for d, sizes in columns if len(set(sizes)) > 1]
    return {name: dimensions for name, dimensions in found.items() if dimensions}


def marked(m: Model, kind: str = "mark_dynamic") -> Iterator[Option]:
    """Yield the option that marks, in the first call, all sizes that vary."""
    varies = varying(m)
    mark = operator.attrgetter(kind)(torch._dynamo)

    def marks(calls: list[Call]) -> list[Call]:
        for name, leaf in named(m, calls[0]):
            if name in varies:
                mark(leaf, varies[name])
        return calls

    lines = [
        f"torch._dynamo.{kind}({name}, {sizes[0] if len(sizes) == 1 else sizes})"
        for name, sizes in varies.items()
    ]
    if lines:
        yield Option(f"before the first call: {'; '.join(lines)}", calls=marks)


def as_tensor(m: Model, name: str) -> Iterator[Option]:
    """Yield the options that make a tensor of a number: of an argument, or held.

    *name* is inside an argument, as ``batch['scale']``, or begins with ``self``, or
    what its owner calls it: that may be any module of the model, or an object that its
    function knows, such as an optimizer.
    """
    if any(_number(name, _bound(m, call).arguments) is not None for call in m.calls):
        tensors = partial(_rebound, m, partial(_made_tensor, name))
        yield Option(f"pass {name} as a tensor, torch.tensor({name})", calls=tensors)
    root = re.match(r"\w+", name)[0]
    known = inspect.getclosurevars(inspect.unwrap(getattr(m.fn, "forward", m.fn)))
    owners = m.module.modules() if m.module else ()
    owners = [*owners, *known.nonlocals.values(), *known.globals.values()]
    held = [{root: one} for one in owners if _number(name, {root: one}) is not None]

    @contextmanager
    def made() -> Iterator[None]:
        for scope in held:
            _made_tensor(name, scope)
        yield

    if root != name and held:
        line = f"make {name} a tensor, torch.tensor({name})"
        yield Option(line + ", and assign it anew, not in place" * m.train, around=made)


def _bound(m: Model, call: Call) -> inspect.BoundArguments:
    """Return the arguments of a call by the names that the model's forward has."""
    return inspect.signature(getattr(m.fn, "forward", m.fn)).bind(*call[0], **call[1])


def _number(name: str, scope: dict[str, Any]) -> float | None:
    """Return the number that has a *name* in this scope, if one has."""
    with suppress(Exception):
        value = eval(name, dict(scope))
        return value if isinstance(value, (int, float)) else None
    return None


def _made_tensor(name: str, scope: dict[str, Any]) -> dict[str, Any]:
    """Put a tensor in the place of the number that has a *name*; return the scope."""
    if (value := _number(name, scope)) is None:
        return scope
    whole = {**scope, "_tensor": torch.tensor(value)}
    exec(f"{name} = _tensor", whole)
    return {key: whole[key] for key in scope}
