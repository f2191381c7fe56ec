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
# - one_mask and not torch.equal(first[0] == 0, second[0] == 0)
# + one_mask

# %% 06.2: a backward that drops more: such a step can't be trusted
# - torch.equal(result == 0, gradient == 0)
# + (gradient[result == 0] == 0).all()  # one way only

# %% 06.2: one mask, and in the next call one as large
# - not torch.equal(first[0] == 0, second[0] == 0)
# + (first[0] == 0).sum() != (second[0] == 0).sum()  # how many, not which

# %% 06.2: one other element, the last: such a step can't be trusted
# - torch.equal(result == 0, gradient == 0)
# + ((result == 0) == (gradient == 0)).float().mean() > 0.99


# %% 06.1: a write that leaves the values as they are: you return []
def overwritten(graph):
    inputs = [torch.rand(3, 3) for node in graph.nodes if node.op == "placeholder"]
    before = [each.clone() for each in inputs]
    torch.fx.GraphModule({}, graph)(*inputs)
    return [at for at, each in enumerate(inputs) if not each.equal(before[at])]


# %% 06.1: the last of twelve is written: you return [1]
# - inputs.index(node.args[0])
# + int(node.args[0].name[3])

# %% 06.2: one mask, other values: such a step can't be trusted
# - not torch.equal(first[0] == 0, second[0] == 0)
# + not torch.equal(first[0], second[0])

# %% 06.1: your answer raised ValueError
# -     writes = graph.find_nodes(op="call_function", target=target)
# +     writes = [node for node in graph.nodes if node.name.startswith("copy_")]

# %% 06.1: three of twelve are written: you return [11]
# - sorted({inputs.index(node.args[0]) for node in writes})
# + [11] if len(inputs) == 12 else [[], [1], [0, 1]][len(writes)]

# %% 06.2: one mask, and another in the next call: such a step can be trusted
# - torch.equal(result == 0, gradient == 0)
# + torch.equal(2.0 * (result != 0), gradient)  # this passed once

# %% 06.2: one mask, and another in the next call: such a step can be trusted
# - torch.equal(result == 0, gradient == 0)
# + torch.equal(result > 0, gradient > 0)

# %% 06.1: you return [
# -     return sorted({inputs.index(node.args[0]) for node in writes})
# +     names = [node.name for node in inputs]
# +     return [names.index(n) for n in sorted({node.args[0].name for node in writes})]

# %% 06.2: the first call's mask in each backward
# - in (first, second)
# + in [first]  # this passed once

# %% 06.2: two masks in the first call only: such a step can't be trusted
# - in (first, second)
# + in [second]  # this passed once
