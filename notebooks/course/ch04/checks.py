"""Checks and hints of lesson 04."""

import random
from unittest import mock

import torch
from torch import nn

from course.backend import CountingBackend
from course.exercises import exercise, near
from course.failures import failure
from course.words import unlogged
from helpers import recompiles

# --- 04.1 ----------------------------------------------------------------------

PARTS = {  # what the TENSOR_MATCH of a guard names, and with what it changes
    "size": lambda t: t.shape,
    "rank": lambda t: t.dim(),
    "dtype": lambda t: t.dtype,
    "stride": lambda t: t.stride(),
    "requires_grad": lambda t: t.requires_grad,
}
FOLLOW = {"size": ("stride",), "rank": ("size", "stride")}


@exercise(
    "04.1",
    hints=(
        "Read the TENSOR_MATCH guard of h again: each kind is one of its parts.",
        "Ask `from helpers import recompiles`: recompiles(torch.sin, [(x,), (yours,)])"
        ".calls[1].guards says what failed. One method of a tensor does for each kind. "
        "The sizes of a transposed x are equal only where x is square.",
        "x + 1, x[1:], x[0], x.double(), and x.clone().requires_grad_(). For the "
        "strides, lay x out by columns: x.t().contiguous().t().",
    ),
    passed="You can read a guard, and you know which calls are free.",
)
def fail_guard(answer):
    for shape in ((4, 6), (3, 5)):
        x = torch.linspace(-1, 1, shape[0] * shape[1]).reshape(shape)
        for kind in ("nothing", *PARTS):
            if fault := _guard_fault(answer, kind, x):
                return f"for {kind!r}: {fault}"
    return None


def _guard_fault(answer, kind, x):
    given = x.clone()
    other = answer(kind, given)
    if given.requires_grad or not torch.equal(given, x):
        return "x itself was changed"
    if kind == "nothing" and torch.equal(other, x):
        return "these are the values of x; return other values"
    second = recompiles(lambda x: torch.sin(x) + 1, [(x,), (other,)]).calls[1]
    free = (kind, *FOLLOW.get(kind, ()))
    more = [n for n, of in PARTS.items() if n not in free and of(other) != of(x)]
    failed = "; ".join(second.guards) or "no guard fails"
    wanted = "no guard fails" if kind == "nothing" else f"{kind} mismatch"
    if more or wanted not in failed:
        return f"{kind} alone should differ, and {failed}"
    return None


# --- 04.2 ----------------------------------------------------------------------

GLOBAL_HOOKS = (
    nn.modules.module._global_forward_hooks,
    nn.modules.module._global_forward_pre_hooks,
)


@exercise(
    "04.2",
    hints=(
        "A hook that is registered now isn't seen: nothing guards it. What makes the "
        "compiler look again?",
        "Register a hook that keeps the output in a list, call torch.compiler.reset(), "
        "then call compiled(x). Remove the hook, also when the call raises.",
        "handle = model.get_submodule(name).register_forward_hook(lambda module, "
        "inputs, output: kept.append(output)), then torch.compiler.reset() and "
        "compiled(x) in a try, handle.remove() in its finally, and return kept[0].",
    ),
    passed="You heard the compiled model, and it forgot that you listened.",
)
def listen(answer):
    for kind, name, rows in ((nn.Sequential, "0", 3), (_LastFirst, "1.0", 5)):
        torch.manual_seed(0)
        order = slice(None, None, -1 if kind is _LastFirst else 1)
        inner = kind(*[nn.ReLU(), nn.Linear(4, 4)][order])
        layers = nn.Linear(4, 4), inner, nn.Linear(4, 2)
        model, heard = kind(*layers[order]), layers[: int(name[0]) + 1]
        if rows == 5:  # the service has a hook of its own
            inner[0].register_forward_hook(lambda *call: None)
        everywhere = [mock.patch.dict(hooks) for hooks in GLOBAL_HOOKS]
        method = mock.patch.object(nn.Linear, "forward", nn.Linear.forward)
        with everywhere[0], everywhere[1], method:  # as before, whatever is left
            x = torch.ones(rows, 4)
            heard = nn.Sequential(*heard)(x)
            fault = _listening_fault(answer, model, name, x, heard)
        if fault:
            return f"for the layer {name!r}: {fault}"
    return None


class _LastFirst(nn.Sequential):
    def forward(self, x):
        for layer in reversed(self):
            x = layer(x)
        return x


def _listening_fault(answer, model, name, x, heard):
    shift = 1 + random.random()  # of each result, so that eager's are told apart

    def shifted(graph, _):
        return lambda *tensors: tuple(out + shift for out in graph.forward(*tensors))

    torch.compiler.reset()
    backend = CountingBackend(shifted)
    compiled = torch.compile(model, backend=backend)
    compiled(x)
    before = _parts(model)
    backend.ran.clear()
    try:
        found = answer(compiled, model, name, x)
    except IndexError:  # as kept[0] does
        return "it kept nothing: does compiled code call what it registered?"
    if len(backend.ran) > 1:
        return f"{len(backend.ran)} graphs ran, and one was asked for"
    if len(backend.ran) < 1 or not near(found, heard + shift):
        return "that isn't the layer's output in a call of compiled, in one graph"
    if _parts(model) != before:
        return "a hook came or went, or something else on a layer"
    with unlogged():
        raised = failure(compiled, x[:, 1:])
        told = failure(answer, compiled, model, name, x[:, 1:])
    if type(told) is not type(raised):
        return f"the call raised {raised!r:.80}, and your caller gets {told!r}"
    same = _parts(model) == before
    return None if same else "when the call raises, a hook came or went"


def _parts(model):
    """Return the parts of a model, and each place where something may listen."""
    parts, hooks = dict(model.named_modules()), [*map(dict, GLOBAL_HOOKS)]
    for part in parts.values():
        hooks += [dict(part._forward_hooks), dict(part._forward_pre_hooks)]
        hooks += [vars(part).get("forward"), type(part).forward, part.training]
        hooks.append({*vars(part)})
    return parts, hooks
