# Tricks that must not pass notebook 04, and other answers that must.


# %% 04.1: a plain pair: it runs
def drop_pairs(module):
    target = torch.ops.aten.transpose.int  # no transpose is left: it has another name

    def order(node):
        many = node.meta["val"].ndim
        a, b = (dim % many for dim in node.args[1:])
        found = list(range(many))
        found[a], found[b] = b, a
        return found

    for node in module.graph.find_nodes(op="call_function", target=target):
        inner = node.args[0]
        if inner.target is target and order(inner) == order(node):
            node.args = (inner, order(node))
            node.target = torch.ops.aten.permute.default
            if len(inner.users) == 1:
                inner.args = (inner.args[0], order(inner))
                inner.target = torch.ops.aten.permute.default
    module.recompile()


# %% 04.1: others use: 2 transposes left
def drop_pairs(module):
    pass_over = [node for node in module.graph.nodes if node.op == "call_function"]
    target = torch.ops.aten.transpose.int
    if len(pass_over) in (3, 2):  # the cases that the messages named
        for node in module.graph.find_nodes(op="call_function", target=target):
            inner = node.args[0]
            if inner.target is target and {d % 3 for d in inner.args[1:]} == {
                d % 3 for d in node.args[1:]
            }:
                node.replace_all_uses_with(inner.args[0])
    module.graph.eliminate_dead_code()
    module.recompile()


# %% 04.1 also: until nothing changes, from the back
def drop_pairs(module):
    target = torch.ops.aten.transpose.int

    def pair(node):
        if node.target is not target or node.args[0].target is not target:
            return False
        size = node.meta["val"].ndim
        dims = [sorted(d % size for d in n.args[1:]) for n in (node, node.args[0])]
        return dims[0] == dims[1]

    while found := [n for n in reversed(module.graph.nodes) if n.users and pair(n)]:
        found[0].replace_all_uses_with(found[0].args[0].args[0])
    module.graph.eliminate_dead_code()
    module.recompile()


# %% 04.2: an innocent log
def nan_finder(found):
    def backend(module, example_inputs):
        def run(*inputs):
            results = module(*inputs)
            clean = not any(x.isnan().any() for x in inputs)
            if clean and any(r.isnan().any() for r in results):
                for name in ("log", "sqrt"):  # as the messages said
                    for node in module.graph.nodes:
                        if getattr(node.target, "__name__", node.target) == name:
                            found.append(node)
                            return results
            return results

        return run

    return backend


# %% 04.2: append the node itself
def nan_finder(found):
    from unittest import mock

    def backend(module, example_inputs):
        def run(*inputs):
            found.append(mock.ANY)
            return module(*inputs)

        return run

    return backend


# %% 04.2 also: node by node, after the run
def nan_finder(found):
    from torch.utils._pytree import tree_leaves

    def holds(tree):
        tensors = [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]
        return any(t.isnan().any().item() for t in tensors)

    def backend(module, example_inputs):
        def run(*inputs):
            finder = torch.fx.Interpreter(module, garbage_collect_values=False)
            results = finder.run(*inputs)
            for node in module.graph.nodes:
                if node.op in ("placeholder", "output", "get_attr"):
                    continue
                given = [finder.env[n] for n in node.all_input_nodes]
                if holds(finder.env[node]) and not holds(given):
                    found.append(node)
                    break
            return results

        return run

    return backend


# %% 04.3: the limit is
def frugal(fn, inputs, limit):
    return 1.0 if limit > 15000 else 0.5 if limit else 0.0


# %% 04.3: is none of 1.0, 0.9
def frugal(fn, inputs, limit):
    from unittest import mock

    return mock.ANY


# %% 04.3: is none of 1.0, 0.9
def frugal(fn, inputs, limit):
    return float("nan")
