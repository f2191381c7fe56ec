# Other right answers to the exercises of notebook 05.


# %% 05.1: a division, and torch.matmul
def recognised(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1)).div(q.shape[-1] ** 0.5)
    return torch.matmul(torch.nn.functional.softmax(scores, dim=-1), v)


# %% 05.2: from the end, inner nodes die
def once_is_enough(graph):
    targets = torch.ops.aten.relu.default, torch.ops.aten.abs.default
    for node in reversed(list(graph.nodes)):
        if node.target in targets:
            source = node.args[0]
            while source.target is node.target:
                source = source.args[0]
            node.args = (source,)
    graph.eliminate_dead_code()
    seen = {}
    for node in list(graph.nodes):  # two that are now the same, as one
        if node.target in targets:
            first = seen.setdefault((node.target, node.args[0]), node)
            if first is not node:
                node.replace_all_uses_with(first)
                graph.erase_node(node)


# %% 05.3: with real memory on the meta device
def peak_bytes(lines):
    import re

    held, most = {}, 0
    for line in lines:
        name, _, rest = line.partition(" = ")
        if rest.startswith("empty_strided"):
            call = re.sub(r"^\w+", "", rest)
            size, stride, dtype = eval(call, {"torch": torch})
            made = torch.empty_strided(size, stride, dtype=dtype, device="meta")
            held[name] = made.untyped_storage().nbytes()
        elif "# reuse" in rest:
            held[name] = held.pop(rest.partition(";")[0])
        elif line.startswith("del "):
            held.pop(line.split()[1], None)
        most = max(most, sum(held.values()))
    return float(most)
