"""Checks and hints of notebook 98."""

import torch

from helpers.exercises import exercise, number, same


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
    torch.manual_seed(0)
    inputs = torch.linspace(0, 1, 5), torch.randn(7), torch.randn(2, 3)
    if fault := _fault(answer, inputs):
        return fault
    found = _graphs(answer, inputs[0])
    if found != 1:
        return f"torch.compile made {found} graphs of it, and one was asked for"
    fault = _fault(torch.compile(answer, backend="eager"), inputs)
    return fault and f"compiled, {fault}"


def _fault(function, inputs):
    for x in inputs:
        result = function(x)
        if type(result) is not torch.Tensor:
            return f"it returns {type(result).__name__}, and a tensor was asked for"
        if result.shape != x.shape or not torch.allclose(result, 2 * x.sin()):
            shape = tuple(x.shape)
            return f"for an x of shape {shape}, the result is not twice the sine of x"
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
    if number(answer) is None:
        return f"breaks is of type {type(answer).__name__}, and a number was wanted"
    if same(answer, graphs):
        return "that is the number of graphs: count the gaps between them"
    if not same(answer, graphs - 1):
        return "count again: graphs are what is left between breaks"
    return None
