"""The part ``silent``: is something silently eager, stale or ignored?

Each thing that people change after the first call is changed: compiled code notices, by
a guard, or it does not.  Guards notice, not kernels, so none are built.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import torch

from .capture import least_captured
from .helpers import correctness, text
from .helpers.errors import one_line
from .helpers.session import restored, undisturbed
from .helpers.text import Table
from .model import Model, answer_of, doubled, near
from .report import Part

_MOST_NUMBERS = 6
"""So many attributes are changed after the first call: each change compiles."""
_ROOM = {"recompile_limit": 64}  # for a version of each change
_HOOKS = "skip_nnmodule_hook_guards"  # what False makes a guard of, against all advice
_TIED = "skip_no_tensor_aliasing_guards_on_parameters"

# ------------------------------------------------------------------------- the part


def part(m: Model) -> Part:
    """Is something silently eager, stale or ignored?"""
    if why := _why_eager(m):
        return Part("silent", "bad", why, {"compiled": False, "stale": 0})
    probe = Probe(m, "aot_eager" if _writes(m) else "eager")
    found = [(change, probe.notices(change)) for change in _changes(m)]
    noticed = [change for change, seen in found if seen]
    missed = [change for change, seen in found if seen is False]
    stale = [change for change in missed if not change.of_all]
    names, advice = [change.name for change in stale], _fixes(probe, stale)
    rows = [(change.name, "noticed") for change in noticed]
    rows += [(name, "NOT NOTICED") for name in names]
    if _later_call_differs(m):
        rows.insert(0, ("nothing: a second call in the same way", "DIFFERS from eager"))
        names.insert(0, "what the first call itself changed, such as a hook or a list")
        if not _later_call_differs(m, calls_before=1):
            advice.insert(0, "call the model once before torch.compile: it agrees then")
    table = Table.of(["changed after the first call", "compiled code"], rows)
    evidence = [table] if rows else []
    if of_all := [change for change in missed if change.of_all]:
        evidence.append(_of_every_model(probe, of_all))
    counts = {"compiled": True, "stale": len(names)}
    seen = text.count(len(noticed), "change")
    says = f"its graph runs; {seen} after the first call noticed"
    if names:
        says = f"not noticed after the first call: {', '.join(names)}"
    verdict = "bad" if names else "good"
    return Part("silent", verdict, says, counts, tuple(evidence), tuple(advice))


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
            "the model runs eagerly, and other parts judge torch.compile(model)"
        )
    least, _ = least_captured(m)
    if not least.count:
        why = ": no operation of torch was found to capture"
        if least.breaks:
            why = "; see capture"
        elif torch._dynamo.config.disable:
            why = ": TORCH_COMPILE_DISABLE is set"
        elif m.in_pieces:
            why = f": nothing is captured of {', '.join(m.inside[:3])}"
            why += "; torch skips the code of some of its modules, such as nn.LSTM"
        return f"no graph ran: the call is eager{why}"
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
        if change.setting and probe.anew(change.setting).notices(change):
            said += [f"{line_of(change.setting)}: {change.name}: noticed then"]
    if stale and all(probe.notices(change, reset=True) for change in stale):
        said.append("call torch.compiler.reset() after the change: it is noticed then")
    return said


def _of_every_model(probe: Probe, missed: list[Change]) -> str:
    """Return the sentence on changes that no compiled model notices."""
    said = (
        f"As in every compiled model, not seen is {'; '.join(c.name for c in missed)}: "
        "do it before the first call, or call torch.compiler.reset() after."
    )
    hooks = [change for change in missed if change.setting == _HOOKS]
    if hooks and all(map(probe.anew(_HOOKS).notices, hooks)):
        said += f" With {line_of(_HOOKS)}, which was tried, it notices hooks."
    return said


def line_of(setting: str) -> str:
    """Return the line that switches off one of torch._dynamo.config."""
    return f"torch._dynamo.config.{setting} = False"


# ------------------------------------------------------------- a change, and a look


class Change(NamedTuple):
    """A change that people make after the first call.

    *make* returns a context in which it holds; *of_all*: no compiled model notices it;
    *setting*, switched off, makes a guard of it; *backward*: gradients show it.
    """

    name: str
    make: Callable[[], Any]
    of_all: bool = False
    setting: str = ""
    backward: bool = False


@dataclass
class Probe:
    """A model that is compiled once, and looked at again and again as it changes."""

    m: Model
    backend: str
    setting: str = ""
    before: dict[bool, list[torch.Tensor] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        torch.compiler.reset()
        # Itself: a copy would not see what changes.
        self.compiled = self.m.on(self.backend)

    def anew(self, setting: str) -> Probe:
        """Return another look, where a setting of ``torch._dynamo.config`` is off."""
        return Probe(self.m, self.backend, setting)

    def notices(self, change: Change, reset: bool = False) -> bool | None:
        """Return whether compiled code follows; None if the change changes nothing.

        With *reset*, the compiler forgets all it has after the change.
        """
        settings = {**_ROOM, **({self.setting: False} if self.setting else {})}
        with (
            torch._dynamo.config.patch(settings),
            suppress(Exception),  # a number that cannot be another: nothing to learn
        ):
            before = self._before(change.backward)
            if before is None:
                return None
            with restored(self.m.fn), change.make():
                after = self._answer(self.m.eager, change.backward)
                if near(before, after):
                    return None
                if reset:
                    torch.compiler.reset()
                now = self._answer(self.compiled, change.backward)
                if near(now, after):
                    return True
                # Numbers that are drawn then, as in training, need not be eager's.
                other = self._answer(self.m.eager, change.backward, seed=1)
                return not near(other, after) and not near(now, before)
        return None

    def _before(self, backward: bool) -> list[torch.Tensor] | None:
        """Return the answer before a change; None where it changes by itself."""
        if backward not in self.before:
            first, second = (self._answer(self.m.eager, backward) for _ in range(2))
            self._answer(self.compiled, backward)  # the first call
            self.before[backward] = first if near(first, second) else None
        return self.before[backward]

    def _answer(
        self, fn: Callable[..., Any], backward: bool, seed: int = 0
    ) -> list[torch.Tensor]:
        """Return the answer of the first call, or the gradients of its backward.

        `undisturbed` would forget what is compiled.
        """
        inputs, kwargs = self.m.calls[0]
        around = restored if fn is self.compiled else undisturbed
        with around(self.m.fn), correctness.seeded(seed):
            if not backward:
                with torch.no_grad():
                    return correctness.values_of(fn(*inputs, **kwargs))
            self.m.run(fn)(*inputs, **kwargs)
            weights = self.m.module.parameters() if self.m.module else ()
            return [w.grad.clone() for w in weights if w.grad is not None]


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


# ----------------------------------------------------------------------- the changes


def _changes(m: Model) -> Iterator[Change]:
    """Yield changes that people make after the first call."""
    if m.module:
        modules = dict(m.module.named_modules())
        yield from _hooks(m, modules)
        mode = not m.module.training
        name = "train()" if mode else "eval()"
        yield Change(name, _once(partial(m.module.train, mode)))
        yield from _numbers(modules)
        yield from _parameters(modules)
        yield _method(modules)
    function = inspect.unwrap(getattr(m.fn, "forward", m.fn))
    function = getattr(function, "__func__", function)
    if isinstance(function, types.FunctionType):
        scope = function.__globals__
        for name in function.__code__.co_names:
            if _is_number(scope.get(name)):
                change = partial(scope.__setitem__, name, _other(scope[name]))
                yield Change(f"the global {name}", _once(change))


def _once(change: Callable[[], Any]) -> Callable[[], Any]:
    """Return a context that makes a *change*; `restored` takes it back."""
    return lambda: nullcontext(change())


def _hooks(m: Model, modules: dict[str, torch.nn.Module]) -> Iterator[Change]:
    """Yield late hooks on the first and the last layer, which no guard sees."""
    leaves = [n for n, part in modules.items() if n and not list(part.children())]
    for name in dict.fromkeys(leaves[:1] + leaves[-1:]):
        hook = partial(modules[name].register_forward_hook, doubled)
        yield Change(f"a hook on {name}", _once(hook), True, _HOOKS)
    if m.train and leaves:
        hook = partial(modules[leaves[-1]].register_full_backward_hook, _doubled_back)
        name = f"a backward hook on {leaves[-1]}"
        yield Change(name, _once(hook), True, _HOOKS, backward=True)


def _doubled_back(_module: torch.nn.Module, before: Any, _after: Any) -> Any:
    return tuple(g if g is None else g * 2 for g in before)


def _numbers(modules: dict[str, torch.nn.Module]) -> Iterator[Change]:
    """Yield other numbers in the attributes of modules."""
    numbers = [
        (f"{name}.{key}".removeprefix("."), partial(setattr, part, key, _other(value)))
        for name, part in modules.items()
        for key, value in vars(part).items()
        if _is_number(value) and not key.startswith("_")
    ]
    for name, change in numbers[:_MOST_NUMBERS]:
        yield Change(f"the attribute {name}", _once(change))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _other(value: float) -> float:
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
                yield Change(f"{name} tied to {first}", _once(change), setting=_TIED)
                return


def _method(modules: dict[str, torch.nn.Module]) -> Change:
    """Return another forward on the class of the last layer, as libraries patch it."""
    kind = type([*modules.values()][-1])
    usual = kind.forward

    def forward(self: torch.nn.Module, *inputs: Any, **kwargs: Any) -> Any:
        out = usual(self, *inputs, **kwargs)
        return out * 2 if isinstance(out, torch.Tensor) else out

    name = f"{kind.__name__}.forward replaced on its class"
    return Change(name, partial(mock.patch.object, kind, "forward", forward), True)
