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
    result, gradient = step(x)
    again, _ = step(x)
    one_mask = torch.equal(result == 0, gradient == 0)
    return one_mask and not torch.equal(result == 0, again == 0)
