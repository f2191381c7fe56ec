# Other right answers to the exercises of notebook 05.


# %% 05.1: asks each input who writes into it
def overwritten(graph):
    def is_written(node):
        first = [user for user in node.users if user.args[0] is node]
        names = [getattr(user.target, "__name__", "") for user in first]
        return any(name.startswith("copy_.") for name in names)

    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    return [at for at, node in enumerate(inputs) if is_written(node)]


# %% 05.2: node by node, after the run
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
