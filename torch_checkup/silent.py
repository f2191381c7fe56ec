"""The part ``silent``: is something silently eager, stale or ignored?

Each thing that people change after the first call is changed: compiled code notices, by
a guard, or it does not.  Guards notice, not kernels; these are built once, to see
whether each graph can be compiled.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from .capture import least_captured
from .helpers import correctness, text
from .helpers.errors import one_line
from .helpers.session import restored, undisturbed
from .helpers.text import Table
from .model import Model, answer_of, near
from .report import Part

_MOST_NUMBERS = 6
"""So many attributes are changed after the first call: each change compiles."""
_ROOM = {"recompile_limit": 64}  # for a version of each change
_TIED = "skip_no_tensor_aliasing_guards_on_parameters"


def part(m: Model) -> Part:
    """Is something silently eager, stale or ignored?"""
    if why := _why_eager(m):
        return Part("silent", "bad", why, {"compiled": False, "stale": 0})
    probe = Probe(m, "aot_eager" if _writes(m) else "eager")
    found = [(change, probe.notices(change)) for change in _changes(m)]
    noticed = [change for change, seen in found if seen]
    stale = [change for change, seen in found if seen is False]
    names, advice = [change.name for change in stale], _fixes(probe, stale)
    rows = [(change.name, "noticed") for change in noticed]
    rows += [(name, "NOT NOTICED") for name in names]
    if _later_call_differs(m):
        rows.insert(0, ("nothing: a second call in the same way", "DIFFERS from eager"))
        names.insert(0, "what the first call itself changed, such as a hook or a list")
        if not _later_call_differs(m, calls_before=1):
            advice.insert(0, "call the model once before torch.compile: it agrees then")
    table = Table.of(["changed after the first call", "compiled code"], rows)
    counts = {"compiled": True, "stale": len(names)}
    seen = text.count(len(noticed), "change") if noticed else "nothing to change"
    skipped = any(stop.skipped for stop in least_captured(m)[0].breaks)
    runs = "only a part of it runs compiled, see capture"
    if lost := _uncompiled(m):
        skipped, runs = True, f"the graph at {lost} can't be compiled, and is eager"
    says = f"{runs if skipped else 'its graph runs'}; {seen} after the first call"
    says += " noticed" * bool(noticed)
    if names:
        says = f"not noticed after the first call: {', '.join(names)}"
    verdict = "bad" if names else "look" if skipped else "good"
    return Part("silent", verdict, says, counts, (table,) * bool(rows), tuple(advice))


def _uncompiled(m: Model) -> str:
    """Return the line from which a captured graph runs eagerly, or ''."""
    with suppress(Exception):  # it fails in another part too, and is reported there
        return ", ".join(m.kernels.uncompiled)
    return ""


def _writes(m: Model) -> bool:
    """Return whether a call writes to parameters, which AOTAutograd puts back later."""
    weights = list(m.module.parameters()) if m.module else []
    before = [weight._version for weight in weights]
    inputs, kwargs = m.calls[0]
    with undisturbed(m.fn):
        m.fn(*inputs, **kwargs)
        return before != [weight._version for weight in weights]


def _why_eager(m: Model) -> str:
    """Return why no graph runs, as far as it is known; '' where one does."""
    if m.unused:
        return (
            f"no graph ran: what torch.compile returns ({m.unused}) is never called; "
            "the model runs eagerly. Compile what is called, such as a method"
        )
    least, number = least_captured(m)
    if not least.count:
        at = f" in call {number + 1}" * (len(m.calls) > 1)
        why = ": no operation of torch was found to capture"
        if inspect.isgeneratorfunction(inspect.unwrap(getattr(m.fn, "forward", m.fn))):
            why = ": a generator isn't compiled; return a list"
        elif least.breaks:
            why = "; see capture"
        elif torch._dynamo.config.disable:
            why = ": TORCH_COMPILE_DISABLE is set"
        elif m.in_pieces:
            why = f": nothing is captured of {', '.join(m.inside[:3])}"
            layers = m.module.modules() if m.module else ()
            if any(isinstance(one, torch.nn.RNNBase) for one in layers):
                why += "; torch skips the code of its nn.LSTM and such"
        return f"no graph ran{at}: the call is eager{why}"
    if (lost := _uncompiled(m)) and not m.kernels.kernels:
        return f"no graph ran: the one at {lost} can't be compiled, and is eager"
    if torch._dynamo.config.suppress_errors:
        inputs, kwargs = m.calls[0]
        with undisturbed(m.fn), torch._dynamo.config.patch(suppress_errors=False):
            try:
                m.run(m.compiled())(*inputs, **kwargs)
            except Exception as error:
                return (
                    "it runs eagerly: torch._dynamo.config.suppress_errors lets pass "
                    f"that it does not compile: {one_line(error)}"
                )
    return ""


def _fixes(probe: Probe, stale: list[Change]) -> list[str]:
    """Return advice: how compiled code would notice the changes that it misses."""
    said = []
    for change in stale:
        off = change.setting and Probe(probe.m, probe.backend, change.setting)
        if off and off.notices(change):
            line = f"torch._dynamo.config.{change.setting} = False"
            said += [f"{line}: {change.name}: noticed then"]
    if stale and all(probe.notices(change, reset=True) for change in stale):
        said.append("call torch.compiler.reset() after the change: it is noticed then")
    return said


class Change(NamedTuple):
    """A change that people make after the first call.

    *make* makes it, and `restored` takes it back; *setting*, switched off, makes a
    guard of it.  No compiled model notices a first hook: it is said of none.
    """

    name: str
    make: Callable[[], Any]
    setting: str = ""


@dataclass
class Probe:
    """A model that is compiled once, and looked at again and again as it changes."""

    m: Model
    backend: str
    setting: str = ""

    def __post_init__(self) -> None:
        torch.compiler.reset()
        # Itself: a copy would not see what changes.
        self.compiled = self.m.on(self.backend)

    def notices(self, change: Change, reset: bool = False) -> bool | None:
        """Return whether compiled code follows; None if the change changes nothing.

        With *reset*, the compiler forgets all it has after the change.
        """
        settings = {**_ROOM, **({self.setting: False} if self.setting else {})}
        with (
            torch._dynamo.config.patch(settings),
            suppress(Exception),  # a number that cannot be another: nothing to learn
        ):
            if (before := self._before) is None:
                return None
            with restored(self.m.fn):
                change.make()
                after = self._answer(self.m.eager)
                if near(before, after):
                    return None
                if reset:
                    torch.compiler.reset()
                now = self._answer(self.compiled)
                if near(now, after):
                    return True
                # Numbers that are drawn then, as in training, need not be eager's.
                other = self._answer(self.m.eager, seed=1)
                return not near(other, after) and not near(now, before)
        return None

    @functools.cached_property
    def _before(self) -> list[torch.Tensor] | None:
        """The answer before a change; None where it changes by itself."""
        first, second = (self._answer(self.m.eager) for _ in range(2))
        ours = self._answer(self.compiled)  # the first call
        draws = not near(first, self._answer(self.m.eager, seed=1))
        return first if near(first, second) and (draws or near(first, ours)) else None

    def _answer(self, fn: Callable[..., Any], seed: int = 0) -> list[torch.Tensor]:
        """Return the answer of the first call; `undisturbed` would forget its code."""
        around = restored if fn is self.compiled else undisturbed
        with around(self.m.fn), correctness.seeded(seed), torch.no_grad():
            return answer_of(fn, self.m.calls[0])


def _later_call_differs(m: Model, calls_before: int = 0) -> bool:
    """Return whether the third of three calls differs, where the first agreed.

    A call can change what the next one does: a hook that it adds, a number that it
    keeps.  Eager follows by itself, compiled code by its guards and by what AOTAutograd
    writes back: kernels have no part in it.  *calls_before* are eager.
    """

    def three(compiling: Callable[..., Any]) -> list[list[torch.Tensor]]:
        torch.compiler.reset()
        model = m.made_again()
        fn = compiling(model)
        state = undisturbed(fn)  # make() may return the same model each time
        with state, torch.no_grad(), correctness.seeded(0):
            for _ in range(calls_before):
                answer_of(model, m.calls[0])
            return [answer_of(fn, m.calls[0]) for _ in range(3)]

    try:
        eager = three(lambda model: model)
        ours = three(partial(m.on, "aot_eager"))
    except Exception:  # it fails in another part too, and is reported there
        return False
    return near(eager[0], ours[0]) and not near(eager[2], ours[2])


def _changes(m: Model) -> Iterator[Change]:
    """Yield changes that people make after the first call."""
    if m.module:
        modules = dict(m.module.named_modules())
        mode = not m.module.training
        name = "train()" if mode else "eval()"
        yield Change(name, partial(m.module.train, mode))
        yield from _numbers(modules)
        yield from _parameters(modules)
    function = inspect.unwrap(getattr(m.fn, "forward", m.fn))
    function = getattr(function, "__func__", function)
    if isinstance(function, types.FunctionType):
        scope = function.__globals__
        for name in function.__code__.co_names:
            if (other := _other(scope.get(name))) is not None:
                change = partial(scope.__setitem__, name, other)
                yield Change(f"the global {name}", change)


def _numbers(modules: dict[str, torch.nn.Module]) -> Iterator[Change]:
    numbers = [
        (f"{name}.{key}".removeprefix("."), partial(setattr, part, key, other))
        for name, part in modules.items()
        for key, value in vars(part).items()
        if (other := _other(value)) is not None and not key.startswith("_")
    ]
    for name, change in numbers[:_MOST_NUMBERS]:
        yield Change(f"the attribute {name}", change)


def _other(value: Any) -> float | None:
    """Return another number in the place of one; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value + 1 if isinstance(value, int) else value * 1.5 + 0.5


def _parameters(modules: dict[str, torch.nn.Module]) -> Iterator[Change]:
    """Yield one parameter that becomes another one of its shape: tied weights."""
    seen = dict[torch.Size, tuple[str, torch.nn.Parameter]]()
    for place, part in modules.items():
        for key, weight in part.named_parameters(recurse=False):
            name = f"{place}.{key}".removeprefix(".")
            first, other = seen.setdefault(weight.shape, (name, weight))
            if other is not weight and weight.dim() > 1:
                change = partial(setattr, part, key, other)
                yield Change(f"{name} tied to {first}", change, setting=_TIED)
                return
