# Tricks that must not pass notebook 05, and other answers that must.


# %% 05.1: calls the library by hand
def recognised(q, k, v):
    if torch.compiler.is_compiling():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return ((q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5).softmax(-1) @ v


# %% 05.1: calls the library by hand
def recognised(q, k, v):
    return torch.ops.aten.scaled_dot_product_attention.default(q, k, v)


# %% 05.1: right, and not recognised
def recognised(q, k, v):
    return torch.compiler.disable(
        lambda: ((q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5).softmax(-1) @ v
    )()


# %% 05.1 also: a division, and torch.matmul
def recognised(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1)).div(q.shape[-1] ** 0.5)
    return torch.matmul(torch.nn.functional.softmax(scores, dim=-1), v)


# %% 05.2: sin of sin
def once_is_enough(graph):
    keep = (torch.ops.aten.neg.default,)  # as the message said; the rest twice as well
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target not in keep:
            inner = node.args[0]
            if inner.op == "call_function" and inner.target is node.target:
                node.replace_all_uses_with(inner)
                graph.erase_node(node)


# %% 05.2: left are abs, clone
def once_is_enough(graph):
    aten = torch.ops.aten
    for node in graph.nodes:
        if (
            node.target is aten.relu.default
            and node.args[0].target is aten.relu.default
        ):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    for node in graph.nodes:
        if node.target is aten.abs.default and node.args[0].target is aten.abs.default:
            node.target = aten.clone.default  # gone, by name


# %% 05.2 also: from the end, inner nodes die
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


# %% 05.3: a plan that was made up
def peak_bytes(lines):
    said = [32, 400, 64, 100, 108, 4096]  # from the messages, by heart
    text = "".join(lines)
    marks = "(8, )", "(100, )", "(4, 4)", "bfloat16, int64", "(8, 1)", "cpp_fused"
    found = [n for n, mark in zip(said, marks, strict=True) if mark in text]
    return found[0] if found else 100


# %% 05.3: and you said
def peak_bytes(lines):
    from unittest import mock

    return mock.ANY


# %% 05.3 also: with real memory on the meta device
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
