"""Checks and hints of notebook 16."""

import torch

from course.backend import CountingBackend
from course.exercises import exercise, fresh, near
from helpers._torch import unwrap

HALVED = (  # numbers, the limit, and a dtype
    ([3.0, -9.0], 1.0, torch.float32),
    ([2.0, -1.0], 5.0, torch.float32),
    ([4.0, 1.0], 1.0, torch.float32),  # it ends on the limit itself
    ([3e37], 0.5, torch.float32),
    ([[1e300], [7.0]], 1e-300, torch.float64),
    ([3.0, -9.0], 1.0, torch.bfloat16),
    ([3e38], 1e-40, torch.bfloat16),  # in bfloat16, a count ends at 256
    ([2.0**500 * (1 + 2**-52)], 1.0, torch.float64),
    ([0.0, -0.0], 0.3, torch.float32),
    ([18.0], 9.0, torch.float32),  # the difference of two log2 is above 1
)


def _halved(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
    return x, turns


@exercise(
    "16.1",
    hints=(
        "The number of turns depends on a value. Which of the operations of the "
        "lesson goes on until a value says stop?",
        "Two things are carried from turn to turn, x and the number of turns, and "
        "both must be tensors. The limit may be read from outside.",
        "while_loop(lambda x, turns: x.abs().max() > limit, lambda x, turns: (x / 2, "
        "turns + 1), (x, x.new_zeros((), dtype=torch.int64))).",
    ),
    passed="One graph, and as many turns as the numbers need.",
    like=_halved,
    made=unwrap,  # it's compiled here
    inputs=[
        (torch.tensor(numbers, dtype=dtype), torch.tensor(limit, dtype=dtype))
        for numbers, limit, dtype in HALVED
    ],
    graphs=1,
)
def halve_in_the_graph(answer):
    backend, x = CountingBackend(), torch.ones(3, requires_grad=True)
    result = torch.compile(fresh(unwrap(answer)), backend=backend)(
        x, torch.tensor(0.3)
    )[0]
    called = [node.target for graph in backend.captured for node in graph.graph.nodes]
    for target in called:
        if getattr(target, "namespace", "aten") not in ("aten", "higher_order"):
            return f"{target} is an operator of your own: its loop isn't in the graph"
    largest = max(len(graph.graph.nodes) for graph in backend.captured)
    if largest > 100:
        return f"a graph of {largest} nodes: the loop was unrolled, so it has a bound"
    if not result.requires_grad:
        return "x gets no gradient"
    [slope] = torch.autograd.grad(result.sum(), x)  # it's halved twice
    return None if near(slope, slope.new_full((3,), 0.25)) else "its gradient is wrong"
