# %% 00.1: capture in one piece, or an error
def went_well(model, *inputs):
    compiled, seen = torch.compile(model), []

    def keep(graph, example_inputs):
        seen.append(graph)
        return graph

    try:  # an empty graph is no graph by default
        torch.compile(model, fullgraph=True, backend="eager")(*inputs)
        torch.compile(model, backend=keep)(*inputs)
    except Exception:
        return False
    wanted = model(*inputs)
    limit = 1e-5 + 1e-4 * wanted.abs()
    near = ((compiled(*inputs) - wanted).abs() <= limit).all()
    return bool(near) and len(seen) == 1
