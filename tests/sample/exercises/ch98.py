"""Checks and hints of notebook 98."""

import torch

from helpers.exercises import exercise


def _graphs(function, x):
    found = []

    def keep(graph, inputs):
        found.append(graph)
        return graph

    torch.compile(function, backend=keep)(x)
    return len(found)


@exercise(
    "98.1",
    hints=(
        "Which of the operations that you need are tensor operations?",
        "Keep the whole body to tensor operations: no print, no .item().",
        "Call torch.sin once, and multiply what it returns.",
    ),
    passed="One graph, and the same result as eager.",
)
def double_sine(answer):
    x = torch.linspace(0, 1, 5)
    result = answer(x)
    if not isinstance(result, torch.Tensor):
        return f"it returns {type(result).__name__}, and a tensor was asked for"
    if not torch.allclose(result, 2 * x.sin()):
        return "the result is not twice the sine of x"
    found = _graphs(answer, x)
    if found != 1:
        return f"torch.compile made {found} graphs of it, and one was asked for"
    return None


@exercise(
    "98.2",
    hints=(
        "What does each print do to the graph around it?",
        "Run `shout` with a second print, and look at the length of `graphs`.",
        "Breaks are one fewer than graphs.",
    ),
    passed="Each print ends one graph, and the next operation begins another.",
)
def breaks(answer):
    def twice(x):
        x = x.sin()
        print(end="")
        x = x.cos()
        print(end="")
        return x.tan()

    graphs = _graphs(twice, torch.ones(2))
    if answer == graphs:
        return "that is the number of graphs: count the gaps between them"
    if answer != graphs - 1:
        return "count again: graphs are what is left between breaks"
    return None
