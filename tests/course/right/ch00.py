# Other right answers to the exercises of notebook 00.


# %% 00.1: capture in one piece, or an error
def compile_and_prove(model, *inputs):
    compiled, seen = torch.compile(model), []

    def keep(graph, example_inputs):
        seen.append(graph)
        return graph

    try:  # an empty graph, which this compiles, is none by default
        torch.compile(model, fullgraph=True, backend="eager")(*inputs)
        torch.compile(model, backend=keep)(*inputs)
    except Exception:
        return compiled, False
    wanted = model(*inputs)
    limit = 1e-5 + 1e-4 * wanted.abs()
    near = ((compiled(*inputs) - wanted).abs() <= limit).all()
    return compiled, near and len(seen) == 1


# %% 00.2: factored out, in ten operations
def gelu_gate(gate, value):
    inner = 0.7978845608 * gate * (1 + 0.044715 * gate * gate)
    return 0.5 * gate * (1 + inner.tanh()) * value


times = 8
