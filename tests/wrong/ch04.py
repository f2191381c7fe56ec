# Wrong answers to the exercises of notebook 04, each with what it must be told.


# %% 04.1: still runs its old code
def drop_pairs(module):
    target = torch.ops.aten.transpose.int

    def dims(node):
        return {dim % node.meta["val"].ndim for dim in node.args[1:]}

    for node in module.graph.find_nodes(op="call_function", target=target):
        inner = node.args[0]
        if inner.target is target and dims(inner) == dims(node):
            node.replace_all_uses_with(inner.args[0])
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()  # and no recompile()


# %% 04.1: other dims: the module
def drop_pairs(module):
    target = torch.ops.aten.transpose.int
    for node in module.graph.find_nodes(op="call_function", target=target):
        inner = node.args[0]
        if inner.target is target:  # whatever the dims are
            node.replace_all_uses_with(inner.args[0])
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()


# %% 04.1: a negative dim: 2 transposes left
def drop_pairs(module):
    target = torch.ops.aten.transpose.int
    for node in module.graph.find_nodes(op="call_function", target=target):
        inner = node.args[0]
        if inner.target is target and {*inner.args[1:]} == {*node.args[1:]}:
            node.replace_all_uses_with(inner.args[0])
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()


# %% 04.2: a second call: found is [sqrt], not []
def nan_finder(found):
    from torch.utils._pytree import tree_leaves

    def bad(value):
        tensors = [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
        return any(bool(t.isnan().any()) for t in tensors)

    class Finder(torch.fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            fresh = not any(bad(self.env[n]) for n in node.all_input_nodes)
            if not found and node.all_input_nodes and fresh and bad(result):
                found.append(node)
            return result

    def backend(module, example_inputs):
        Finder(module).run(*example_inputs)  # once, when it compiles
        return module

    return backend


# %% 04.2: two culprits, the first counts: found is [log]
def nan_finder(found):
    from torch.utils._pytree import tree_leaves

    def bad(value):
        tensors = [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
        return any(bool(t.isnan().any()) for t in tensors)

    class Finder(torch.fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            fresh = not any(bad(self.env[n]) for n in node.all_input_nodes)
            if node.all_input_nodes and fresh and bad(result):
                found.append(node)
            return result

    return lambda module, _: lambda *inputs: Finder(module).run(*inputs)


# %% 04.2: a NaN that came in: found stays empty
def nan_finder(found):
    from torch.utils._pytree import tree_leaves

    class Finder(torch.fx.Interpreter):
        clean = True

        def run_node(self, node):
            result = super().run_node(node)
            tensors = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            if self.clean and any(bool(t.isnan().any()) for t in tensors):
                self.clean = False
                found.append(node)
            return result

    return lambda module, _: lambda *inputs: Finder(module).run(*inputs)


# %% 04.3: was that share in force when the compile happened?
def frugal(fn, inputs, limit):
    for tenths in range(10, -1, -1):  # the budget is gone at the first call
        torch.compiler.reset()
        with budget(tenths / 10):
            compiled = torch.compile(fn, backend="aot_eager")
        if saved_bytes(compiled, *inputs) <= limit:
            return tenths / 10
    return 1.0  # nothing helps


# %% 04.3: is less than it takes
def frugal(fn, inputs, limit):
    for tenths in range(11):  # the smallest that fits, not the largest
        torch.compiler.reset()
        with budget(tenths / 10):
            compiled = torch.compile(fn, backend="aot_eager")
            if saved_bytes(compiled, *inputs) <= limit:
                return tenths / 10
    return None


# %% 04.3: None is none of
def frugal(fn, inputs, limit):
    for tenths in range(10, -1, -1):  # the first graph serves every share
        with budget(tenths / 10):
            compiled = torch.compile(fn, backend="aot_eager")
            if saved_bytes(compiled, *inputs) <= limit:
                return tenths / 10
    return None
