# Answers to the exercises of lesson 06. Try first: a hint costs nothing.


# %% 06.1
def overwritten(graph):
    """Return the positions of the inputs that the graph writes into."""
    inputs = graph.find_nodes(op="placeholder")
    target = torch.ops.aten.copy_.default
    writes = graph.find_nodes(op="call_function", target=target)
    return sorted({inputs.index(node.args[0]) for node in writes})


# %% 06.2
def sound(step, x):
    """Return whether the dropout of a training step can be trusted."""
    first, second = step(x), step(x)
    one_mask = all(
        torch.equal(result == 0, gradient == 0)
        for result, gradient in (first, second)
    )
    return one_mask and not torch.equal(first[0] == 0, second[0] == 0)
