"""The part ``silent``: is something silently eager, stale or ignored?"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from .checkups import Part
from .helpers import correctness, text
from .helpers.capture import Watch
from .helpers.session import restored, undisturbed
from .helpers.text import Table
from .patient import Call, Patient, doubled

_MOST_NUMBERS = 6
"""So many attributes are changed after the first call: each change compiles."""
_LATE_HOOKS = (
    "No compiled model notices a hook on an inner module that comes after the first "
    "call, unless torch._dynamo.config.skip_nnmodule_hook_guards is False: add hooks "
    "before the first call."
)


def silent(p: Patient) -> Part:
    """Is something silently eager, stale or ignored?"""
    inputs, kwargs = p.calls[0]
    with undisturbed(p.fn):
        compiled = p.compiled(backend="eager")  # enough for what Dynamo knows
        with Watch() as watch:
            compiled(*inputs, **kwargs)
    if not watch.graphs:
        says = "no graph ran: the call is eager"
        why = "look for TORCH_COMPILE_DISABLE, a stance, or torch.compiler.disable"
        counts = {"compiled": False, "stale": 0}
        return Part("silent", "bad", says, counts, advice=(why,))
    noticed = {name: _notices(p, change) for name, change in _changes(p)}
    noticed = {name: seen for name, seen in noticed.items() if seen is not None}
    rows = [(n, "noticed" if seen else "NOT NOTICED") for n, seen in noticed.items()]
    missed = [name for name, seen in noticed.items() if not seen]
    hooks = [name for name in missed if name.startswith("a hook")]
    stale = [name for name in missed if name not in hooks]
    if _later_call_differs(p):
        rows.insert(0, ("nothing: a second call in the same way", "DIFFERS from eager"))
        stale.insert(0, "what the first call itself changed, such as a hook or a list")
    counts = {"compiled": True, "stale": len(stale)}
    table = Table.of(["changed after the first call", "compiled code"], rows)
    evidence = [str(table)] if rows else []
    if hooks:
        evidence.append(_LATE_HOOKS)
    if stale:
        says = f"not noticed after the first call: {', '.join(stale)}"
        mend = "change it before the first call, or call torch.compiler.reset() after"
        return Part("silent", "bad", says, counts, tuple(evidence), (mend,))
    seen = text.count(len(rows) - len(hooks), "change")
    says = f"its graph runs; {seen} after the first call noticed"
    return Part("silent", "good", says, counts, tuple(evidence))


def _later_call_differs(p: Patient) -> bool:
    """Return whether the third of three calls differs, where the first agreed.

    A call can change what the next one does: a hook that it adds, a number that it
    keeps.  Eager follows by itself, compiled code by its guards and by what AOTAutograd
    writes back: kernels have no part in it.
    """

    def three(fn: Callable[..., Any]) -> list[list[torch.Tensor]]:
        state = undisturbed(fn)  # make() may return the same model each time
        with state, torch.no_grad(), correctness.seeded(0):
            return [_answer(fn, p.calls[0]) for _ in range(3)]

    try:
        eager = three(p.made_again())
        torch.compiler.reset()
        ours = three(torch.compile(p.made_again(), backend="aot_eager"))
    except Exception:  # it fails in another part too, and is reported there
        return False
    return _near(eager[0], ours[0]) and not _near(eager[2], ours[2])


def _answer(fn: Callable[..., Any], call: Call) -> list[torch.Tensor]:
    inputs, kwargs = call
    return correctness.values_of(fn(*inputs, **kwargs))


def _near(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    """Return whether tensors are roughly equal: a stale answer is off by more."""
    return [t.shape for t in some] == [t.shape for t in others] and all(
        correctness.close(a, b, rtol=1e-2, atol=1e-3)
        for a, b in zip(some, others, strict=True)
    )


def _changes(p: Patient) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield changes that people make after the first call: of a hook, mode, number."""
    modules = dict(p.module.named_modules()) if p.module else {}
    leaves = [n for n, part in modules.items() if n and not list(part.children())]
    for name in dict.fromkeys(leaves[:1] + leaves[-1:]):
        hook = modules[name].register_forward_hook
        yield f"a hook on {name}", partial(hook, doubled)
    if p.module:
        mode = not p.module.training
        yield "train()" if mode else "eval()", partial(p.module.train, mode)
    numbers = [
        (f"{name}.{key}".removeprefix("."), partial(setattr, part, key, _other(value)))
        for name, part in modules.items()
        for key, value in vars(part).items()
        if _is_number(value) and not key.startswith("_")
    ]
    for name, change in numbers[:_MOST_NUMBERS]:
        yield f"the attribute {name}", change
    function = inspect.unwrap(getattr(p.fn, "forward", p.fn))
    function = getattr(function, "__func__", function)
    if isinstance(function, types.FunctionType):
        scope = function.__globals__
        for name in function.__code__.co_names:
            if _is_number(scope.get(name)):
                change = partial(scope.__setitem__, name, _other(scope[name]))
                yield f"the global {name}", change


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _other(value: float) -> float:
    return value + 1 if isinstance(value, int) else value * 1.5 + 0.5


def _notices(p: Patient, change: Callable[[], Any]) -> bool | None:
    """Return whether compiled code follows *change*; None if it changes no answer."""

    def answer(fn: Callable[..., Any], around: Any = undisturbed) -> list[torch.Tensor]:
        with around(p.fn), correctness.seeded(0), torch.no_grad():
            return _answer(fn, p.calls[0])

    def changed(fn: Callable[..., Any]) -> list[torch.Tensor]:
        with restored(p.fn):
            change()
            return answer(fn)

    try:
        before = answer(p.fn)
        if not _near(before, answer(p.fn)):  # it changes by itself
            return None
        after = changed(p.fn)
        if _near(before, after):
            return None
        torch.compiler.reset()
        # Itself: a copy would not see what changes.  Guards notice, not kernels.
        compiled = torch.compile(p.fn, backend="eager")
        answer(compiled, restored)  # undisturbed would forget what is compiled
        return _near(changed(compiled), after)
    except Exception:  # a number that cannot be another one: nothing to learn
        return None
