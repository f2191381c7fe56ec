# %% 06.1: a write through a view: you return [], and the graph writes [1]
# - target = torch.ops.aten.copy_.default
# + target = torch.ops.aten.add_.Tensor  # gone by now


# %% 06.1: two inputs are written: you return [1]
# - sorted({inputs.index(node.args[0]) for node in writes})
# + [inputs.index(node.args[0]) for node in writes[-1:]]  # only the last write


# %% 06.1: an input is copied into another: you return [0, 1]
def overwritten(graph):
    inputs = graph.find_nodes(op="placeholder")
    return [
        at
        for at, node in enumerate(inputs)
        if any("copy" in str(user.target) for user in node.users)
    ]


# %% 06.2: the same mask in each call: such a step can't be trusted
# - one_mask and not torch.equal(result == 0, again == 0)
# + one_mask


# %% 06.2: one mask, and another in the next call: such a step can be trusted
# -     again, _ = step(x)
# +     again = result  # never asks a second time


# %% 06.2: a backward that drops more: such a step can't be trusted
# - torch.equal(result == 0, gradient == 0)
# + (gradient[result == 0] == 0).all()  # one way only


# %% 06.2: one mask, and in the next call one as large
# - not torch.equal(result == 0, again == 0)
# + (result == 0).sum() != (again == 0).sum()  # how many, not which


# %% 06.2: a few other elements: such a step can't be trusted
# - torch.equal(result == 0, gradient == 0)
# + ((result == 0) == (gradient == 0)).float().mean() > 0.95
