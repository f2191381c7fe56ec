"""Checks and hints of notebook 14."""

import torch

from course.backend import CountingBackend
from course.exercises import (
    difference,
    exercise,
    fresh,
    near,
    one_compile,
)
from helpers.text import count

# --- 14.1 ----------------------------------------------------------------------


class Warmup(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x + min(self.step / 10, 1.0) * self.layer(x)


@exercise(
    "14.1",
    hints=(
        "A float would settle after a second compile. Which values are not guarded, "
        "in the table of 'Modes, dtypes and strides'?",
        "The values of tensors. A buffer can count, if its key stays out of the "
        "checkpoint. min() of a tensor and a number would be a branch on its value, "
        "and the graph needs another operation for it.",
        "self.register_buffer('step', torch.tensor(0), persistent=False), and "
        "part = (self.step / 10).clamp(max=1). An integer counts on in bfloat16.",
    ),
    passed="The step is a tensor: its value flows through the one graph there is.",
)
def mended_class(answer):
    model, reference = answer(6), Warmup(6)
    if strange := model.state_dict().keys() ^ reference.state_dict().keys():
        return f"the keys of the state_dict differ: {', '.join(sorted(strange))}"
    model.load_state_dict(reference.state_dict())
    x = torch.linspace(-1, 1, 12).reshape(2, 6)
    for n in range(1, 14):
        for each in (model, reference):
            each.train(n != 5)
        if not near(model(x), reference(x)):
            return f"call {n} returns something else than Warmup does"
        if int(model.step) != n:
            return f"int(model.step) is not {n} after {count(n, 'call')}"
    for each in (model, reference):
        each.zero_grad()
        each(x.clone().requires_grad_()).sum().backward()
        if each.layer.weight.grad is None:
            return "the layer gets no gradient"
    if not near(model.layer.weight.grad, reference.layer.weight.grad):
        return "the gradient of the layer is not that of Warmup"
    if first := int(answer(6).step):
        return f"a new model begins at step {first}: it shares what counts with another"
    half, few = answer(6).bfloat16(), x.bfloat16()
    for _ in range(300):  # bfloat16 has no 257
        half(few)
    if int(half.step) != 300:
        return f"as bfloat16, int(model.step) is {int(half.step)} after 300 calls"
    return one_compile(lambda: answer(6), [(x,)] * 13)


# --- 14.2 ----------------------------------------------------------------------

EPOCHS = ((64, 64, 16), (64, 9, 64), (2, 64, 31))


def _step(x):
    return (x - x.mean(0)).sigmoid()


def _is_exact(graph):
    """Return whether a captured graph takes x alone, and no number of rows."""
    return len(graph.graph.find_nodes(op="placeholder")) == 1


@exercise(
    "14.2",
    hints=(
        "By default, the version for any number of rows goes to the front and takes "
        "the full batches too. What could keep the two kinds of batches apart?",
        "Two calls of torch.compile, one with dynamic=False and one with "
        "dynamic=True. Which of them runs is decided by len(x), outside.",
        "exact = torch.compile(step, backend=backend, dynamic=False); open_ = the same "
        "with dynamic=True; return lambda x: exact(x) if len(x) == 64 else open_(x).",
    ),
    passed="Full batches keep the code that was made for them, in every epoch.",
)
def full_batches(answer):
    torch.manual_seed(0)
    backend = CountingBackend()
    compiled = answer(fresh(_step), backend)
    for n, sizes in enumerate(EPOCHS, 1):
        for rows in sizes:
            backend.ran.clear()
            if fault := difference(compiled, _step, [(torch.randn(rows, 8),)]):
                return f"in epoch {n}, {fault}"
            if not backend.ran:
                return f"in epoch {n}, {rows} rows ran no graph: is it compiled?"
            if rows == 64 and not _is_exact(backend.captured[backend.ran[-1]]):
                return (
                    f"in epoch {n}, a full batch ran the version for any number of "
                    "rows, not the one made for 64"
                )
    if len(backend.captured) > 2:
        return f"{len(backend.captured)} compiles, and 2 were asked for"
    x = torch.randn(64, 8, requires_grad=True)
    if not answer(fresh(_step), CountingBackend())(x).requires_grad:
        return "x asks for a gradient, and the result has none"
    return None
