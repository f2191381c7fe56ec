# Other right answers to the exercises of notebook 04.


# %% 04.1: until nothing changes, from the back
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


# %% 04.2: node by node, after the run
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
