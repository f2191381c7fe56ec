# Answers to the exercises of notebook 05. Try first: a hint costs nothing.


# %% 05.1
def overwritten(graph):
    """Return the positions of the inputs that the graph writes into."""
    inputs = graph.find_nodes(op="placeholder")
    target = torch.ops.aten.copy_.default
    writes = graph.find_nodes(op="call_function", target=target)
    return sorted({inputs.index(node.args[0]) for node in writes})


# %% 05.2
def nan_finder(found):
    """Return a backend that appends the culprit to the list *found*."""
    from torch.utils._pytree import tree_leaves

    def bad(value):
        leaves = tree_leaves(value)
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        return any(bool(t.isnan().any()) for t in tensors)

    class Finder(torch.fx.Interpreter):
        searching = True

        def run_node(self, node):
            result = super().run_node(node)
            taken = [self.env[n] for n in node.all_input_nodes]
            came_in = node.op == "placeholder" or any(map(bad, taken))
            if self.searching and not came_in and bad(result):
                self.searching = False
                found.append(node)
            return result

    def backend(module, example_inputs):
        return lambda *inputs: Finder(module).run(*inputs)

    return backend
