# %% 06.1: asks each input who writes into it
def overwritten(graph):
    def is_written(node):
        first = [user for user in node.users if user.args[0] is node]
        names = [getattr(user.target, "__name__", "") for user in first]
        return any(name.startswith("copy_.") for name in names)

    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    return [at for at, node in enumerate(inputs) if is_written(node)]


# %% 06.2: by the share that differs
def sound(step, x):
    (result, gradient), (again, slope) = step(x), step(x)
    kept = (result != 0) == (gradient != 0)
    fresh = ((result != 0) ^ (again != 0)).float().mean() > 0.2
    return kept.all() and ((again != 0) == (slope != 0)).all() and fresh
