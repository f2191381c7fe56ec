# Wrong answers to the exercises of notebook 18, each with what it must be told.


# %% 18.1: tail: it does not notice
def notices():
    index, table = torch.tensor([1, 1, 2]), torch.randn(3, 4)
    return {
        "tail": (torch.sin, (torch.randn(64, 256),)),
        "repeats": (torch.nn.functional.embedding, (index, table)),
        "nan": (torch.maximum, (torch.tensor([torch.nan]), torch.zeros(1))),
    }


# %% 18.1: repeats: it does not notice
def notices():
    index, table = torch.tensor([0, 1, 2]), torch.randn(3, 4)
    return {
        "tail": (torch.sin, (torch.randn(1003),)),
        "repeats": (torch.nn.functional.embedding, (index, table)),
        "nan": (torch.maximum, (torch.tensor([torch.nan]), torch.zeros(1))),
    }


# %% 18.2: a function with a graph break: you say "right"
def verdict(function, wrap, *inputs):
    from course.values import right_values

    graphs = []

    def backend(graph, example):
        graphs.append(graph)
        return graph

    good = right_values(function, wrap(function, backend=backend), *inputs)
    if not graphs:
        return "not captured"
    return "right" if good else "wrong"


# %% 18.2: a gradient that is too large: you say "right"
def verdict(function, wrap, *inputs):
    graphs = []

    def backend(graph, example):
        graphs.append(graph)
        return graph

    made = wrap(function, backend=backend)(*inputs)
    if len(graphs) != 1:
        return "not captured"
    return "right" if torch.allclose(made, function(*inputs)) else "wrong"
