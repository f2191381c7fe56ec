"""Checks and hints of notebook 30."""

import torch

from course.backend import CountingBackend
from course.exercises import exercise, near, one_graph

WIDTH, RANK = 12, 8

# --- 30.1 ----------------------------------------------------------------------


@exercise(
    "30.1",
    hints=(
        "A choice that is a tensor with one dimension is data: no guard looks at its "
        "numbers.",
        "Stack all A into one tensor (adapters, rank, in) and all B into another, and "
        "index both with which. Tensors of a model are parameters or buffers.",
        "In __init__: self.register_buffer('a', torch.stack([a for a, _ in "
        "adapters.values()])), likewise b. In forward: return self.base(x) + "
        "x @ self.a[which].mT @ self.b[which].mT.",
    ),
    passed="Any customer in any row, one compile.",
)
def for_every_customer(Served):
    torch.manual_seed(30)
    base = torch.nn.Linear(WIDTH, 7)
    pairs = [(torch.randn(3, WIDTH), torch.randn(7, 3)) for _ in range(5)]
    names = ("zoe", "ann", "kim", "bob", "eve")  # in the order they came
    layer = Served(base, dict(zip(names, pairs, strict=True)))
    backend = CountingBackend()
    torch.compiler.reset()
    run = torch.compile(layer, backend=backend)
    x = torch.randn(4, 5, WIDTH)
    for which in ([0, 3, 1, 0], [2, 0, 4, 2], [1, 1, 1, 1]):
        wanted = []
        for row, n in zip(x, which, strict=True):
            a, b = pairs[n]
            wanted.append(base(row) + row @ a.T @ b.T)
        if not near(run(x, torch.tensor(which)), torch.stack(wanted), 1e-4):
            return f"with which = {which}, a row has another adapter's answer"
    if (graphs := len(backend.captured)) != 1:
        return f"three choices made {graphs} graphs, and one is enough"
    return one_graph(layer, x, torch.tensor(which))


# --- 30.2 ----------------------------------------------------------------------


class _Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(WIDTH, 7)
        self.a = torch.nn.Parameter(torch.randn(RANK, WIDTH))
        self.b = torch.nn.Parameter(torch.randn(7, RANK))
        self.register_buffer("scale", torch.tensor(1.0))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.T @ self.b.T)


@exercise(
    "30.2",
    hints=(
        "The compiled code reads the tensors that it knows. Which operations change "
        "their numbers and leave the tensors themselves?",
        "zero_(), copy_() on a part, and fill_() for the scale, all without gradients. "
        "What is left of a larger adapter must not be added.",
        "with torch.no_grad(): layer.a.zero_(); layer.a[: len(a)].copy_(a); "
        "layer.b.zero_(); layer.b[:, : len(a)].copy_(b); layer.scale.fill_(scale).",
    ),
    passed="Every rank, no compile, and nothing left of the adapter before.",
)
def without_a_compile(swap):
    torch.manual_seed(30)
    layer = _Layer()
    backend = CountingBackend()
    torch.compiler.reset()
    run = torch.compile(layer, backend=backend)
    x = torch.randn(4, WIDTH)
    run(x)
    kept = []
    for rank, scale in ((8, 0.5), (2, 2.0), (4, 0.25)):
        a, b = torch.randn(rank, WIDTH), torch.randn(7, rank)
        kept.append((given := (a.clone(), b.clone()), (a, b)))
        swap(layer, *given, scale)
        if not near(run(x), layer.base(x) + scale * (x @ a.T @ b.T), 1e-4):
            return f"after a swap to rank {rank}, the answer is another adapter's"
    if more := len(backend.captured) - 1:
        return f"three swaps compiled {more} more times"
    if not all(torch.equal(*pair) for each in kept for pair in zip(*each, strict=True)):
        return "the adapter that was given has changed: its customer gets another's"
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    try:
        swap(layer, torch.randn(9, WIDTH), torch.randn(7, 9), 3.0)
    except ValueError:
        after = layer.state_dict()
        if after.keys() == before.keys() and all(
            torch.equal(after[name], value) for name, value in before.items()
        ):
            return None
        return "rank 9 was refused, and the layer has changed"
    return "rank 9 does not fit into the tensors, and no ValueError says so"
