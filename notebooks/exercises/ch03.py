"""Checks and hints of notebook 03."""

import torch

from helpers import recompiles
from helpers.exercises import CountingBackend, exercise

# --- 03.1 ----------------------------------------------------------------------

KINDS = ("size", "rank", "dtype", "stride", "requires_grad")


@exercise(
    "03.1",
    hints=(
        "Read the TENSOR_MATCH guard of h again: each kind is one of its parts.",
        "Ask recompiles(torch.sin, [(x,), (yours,)]).calls[1].guards what failed. "
        "One method of a tensor does for each kind. The sizes of a transposed x are "
        "equal only where x is square.",
        "x + 1, x[1:], x[0], x.double(), and x.clone().requires_grad_(). For the "
        "strides, lay x out by columns: x.t().contiguous().t().",
    ),
    passed="You can read a guard, and you know which calls are free.",
)
def fail_guard(answer):
    for rows, columns in ((4, 6), (5, 5)):
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns)
        for kind in ("nothing", *KINDS):
            if fault := _guard_fault(kind, x, answer(kind, x.clone())):
                return f"for {kind!r} and an x of shape {tuple(x.shape)}: {fault}"
    return None


def _guard_fault(kind, x, other):
    if type(other) is not torch.Tensor:
        return f"it returned {type(other).__name__}, and a tensor was asked for"
    if kind == "nothing" and torch.equal(other, x):
        return "the values are those of x, and other ones were asked for"
    second = recompiles(lambda x: torch.sin(x) + 1, [(x,), (other,)]).calls[1]
    failed = "; ".join(second.guards)
    if kind == "nothing":
        return f"it compiles again, because of {failed}" if second.compiles else None
    if not second.compiles:
        return "nothing is compiled again: all guards still hold"
    if f"{kind} mismatch" not in failed:
        return f"another guard fails: {failed}"
    return None


# --- 03.2 ----------------------------------------------------------------------


class Layer(torch.nn.Linear):
    """A linear layer that notes when its Python runs outside of a compile."""

    calls_in_eager = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.calls_in_eager += 1
        return super().forward(x)


class Model(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        torch.manual_seed(depth)
        self.blocks = torch.nn.ModuleList(Layer(4, 4) for _ in range(depth))
        self.last = Layer(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x).relu()
        return self.last(x)


@exercise(
    "03.2",
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
    for depth, name, rows in ((1, "last", 3), (2, "blocks.1", 5), (2, "blocks.0", 1)):
        if fault := _listening_fault(answer, Model(depth), name, torch.ones(rows, 4)):
            return f"for the layer {name!r}: {fault}"
    return None


def _listening_fault(answer, model, name, x):
    layer, backend = model.get_submodule(name), CountingBackend()
    wanted = []
    handle = layer.register_forward_hook(lambda *call: wanted.append(call[-1]))
    result = model(x)
    handle.remove()
    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend)
    compiled(x)
    eager, ran = layer.calls_in_eager, len(backend.ran)
    try:
        heard = answer(compiled, model, name, x)
    except IndexError as error:
        return f"nothing was heard ({error}): the compiled code has no hook in it"
    if heard is None or (isinstance(heard, list) and not heard):
        return "nothing was heard: the compiled code has no hook in it"
    if not torch.is_tensor(heard) or heard.shape != wanted[0].shape:
        return "it did not return a tensor of the size of the layer's output"
    if not torch.allclose(heard, wanted[0], atol=1e-6):
        return "what it returned is not the output of that layer"
    if len(backend.ran) == ran:
        return "compiled was not called: none of its graphs ran"
    if layer.calls_in_eager > eager:
        return "the layer ran in eager, and the compiled call was to be listened to"
    if layer._forward_hooks:
        return "a hook is left on the layer"
    if not torch.allclose(compiled(x), result, atol=1e-6):
        return "afterwards, compiled(x) returns something else than before"
    outputs = backend.ran[-1].graph.output_node().args[0]
    if len(outputs) != 1:
        return "afterwards, compiled(x) still runs the code that has your hook in it"
    return None
