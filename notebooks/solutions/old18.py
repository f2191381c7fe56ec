# Answers to the exercises of notebook 18.  Each cell replaces its stub.


# %% 18.1
def notices():
    index, table = torch.tensor([1, 1, 2]), torch.randn(3, 4)
    number_or_nan = torch.tensor([torch.nan, 1.0])
    return {
        "tail": (torch.sin, (torch.randn(1003),)),
        "repeats": (torch.nn.functional.embedding, (index, table)),
        "nan": (torch.maximum, (number_or_nan, torch.zeros(2))),
    }


# %% 18.2
def verdict(function, wrap, *inputs):
    from course.values import right_values

    graphs = []

    def backend(graph, example):
        graphs.append(graph)
        return graph

    def doubling(graph, example):
        return lambda *given: [2 * y for y in graph(*given)]

    torch.compiler.reset()
    compiled = wrap(function, backend=backend)
    good = right_values(function, compiled, *inputs)
    doubled = wrap(function, backend=doubling)
    another = right_values(function, doubled, *inputs)
    if len(graphs) != 1 or another:  # it does not matter what the graph gives
        return "not captured"
    return "right" if good else "wrong"
