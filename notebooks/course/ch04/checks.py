"""Checks and hints of notebook 04."""

import torch
from torch import nn

from course.backend import CountingBackend
from course.exercises import exercise, near
from helpers import recompiles

# --- 04.1 ----------------------------------------------------------------------


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
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    for kind in ("nothing", "size", "rank", "dtype", "stride", "requires_grad"):
        if fault := _guard_fault(kind, x, answer(kind, x.clone())):
            return f"for {kind!r}: {fault}"
    return None


PARTS = {  # what the TENSOR_MATCH of a guard names, and with what it changes
    "size": lambda t: t.shape,
    "rank": lambda t: t.dim(),
    "dtype": lambda t: t.dtype,
    "stride": lambda t: t.stride(),
    "requires_grad": lambda t: t.requires_grad,
}
FOLLOW = {"size": ("stride",), "rank": ("size", "stride")}


def _guard_fault(kind, x, other):
    second = recompiles(lambda x: torch.sin(x) + 1, [(x,), (other,)]).calls[1]
    failed = "; ".join(second.guards)
    if kind == "nothing":
        if torch.equal(other, x):
            return "the values are those of x, and other ones were asked for"
        return f"it compiles again, because of {failed}" if second.compiles else None
    if not second.compiles:
        return "nothing is compiled again: all guards still hold"
    if f"{kind} mismatch" not in failed:
        return f"another guard fails: {failed}"
    free = (kind, *FOLLOW.get(kind, ()))
    if more := [n for n, of in PARTS.items() if n not in free and of(other) != of(x)]:
        return f"the {more[0]} is another one, too: {kind} alone was asked for"
    return None


# --- 04.2 ----------------------------------------------------------------------


@exercise(
    "04.2",
    hints=(
        "A hook that is registered now is not seen: nothing guards it. What makes the "
        "compiler look again?",
        "Register a hook that keeps the output in a list, call torch.compiler.reset(), "
        "then call compiled(x). Remove the hook, also when the call raises.",
        "handle = model.get_submodule(name).register_forward_hook(lambda module, "
        "inputs, output: kept.append(output)), then torch.compiler.reset() and "
        "compiled(x) in a try, handle.remove() and torch.compiler.reset() in its "
        "finally, and return kept[0].",
    ),
    passed="The compiled model was heard, and it forgot that you listened.",
)
def listen(answer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    for name, rows in (("0", 3), ("2", 5)):
        if fault := _listening_fault(answer, model, name, torch.ones(rows, 4)):
            return f"for the layer {name!r}: {fault}"
    return None


GLOBAL_HOOKS = "_global_forward_hooks", "_global_forward_pre_hooks"


def _listening_fault(answer, model, name, x):
    layer, backend = model.get_submodule(name), CountingBackend()
    everywhere = [getattr(nn.modules.module, hooks) for hooks in GLOBAL_HOOKS]
    known = [set(hooks) for hooks in everywhere]
    wanted = model[: int(name) + 1](x)
    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend)
    compiled(x)
    backend.ran.clear()
    try:
        heard = answer(compiled, model, name, x)
    except IndexError as error:
        return f"nothing was heard ({error}): the compiled code has no hook in it"
    if not backend.ran:
        return "compiled was not called: none of its graphs ran"
    if not near(heard, wanted):
        return "what it returned is not the output of that layer"
    if _has_hook(layer) or "forward" in vars(layer):
        return "a hook is left on the layer"
    if any(map(_has_hook, model.modules())):
        return "a hook is left on another module of the model"
    for hooks, before in zip(everywhere, known, strict=True):
        if left := set(hooks) - before:
            for key in left:
                del hooks[key]
            return "a hook of all modules is left"
    return None


def _has_hook(module):
    return module._forward_hooks or module._forward_pre_hooks
