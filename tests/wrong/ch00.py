# Wrong answers to the exercises of notebook 00, each with what it must be told.


# %% 00.1: what you return first runs eagerly
def compile_and_prove(model, *inputs):
    torch.compile(model)
    return model, True


# %% 00.1: has a graph break
def compile_and_prove(model, *inputs):
    compiled = torch.compile(model)
    return compiled, torch.allclose(compiled(*inputs), model(*inputs), atol=1e-5)


# %% 00.1: differs from eager by rounding alone
def compile_and_prove(model, *inputs):
    from helpers import graphs

    compiled = torch.compile(model)
    found = graphs(model, *inputs)
    same = torch.equal(compiled(*inputs), model(*inputs))
    return compiled, found.count == 1 and not found.breaks and same


# %% 00.1: no longer what it was
def compile_and_prove(model, *inputs):
    from helpers import graphs

    before = model(*inputs)
    if isinstance(model, torch.nn.Module):
        model = model.to(torch.bfloat16)
        inputs = [x.to(torch.bfloat16) for x in inputs]
    compiled = torch.compile(model)
    same = torch.allclose(compiled(*inputs).float(), before, atol=0.1)
    return compiled, graphs(model, *inputs).count == 1 and same


# %% 00.2: so the library does the work
def gelu_gate(gate, value):
    return torch.nn.functional.gelu(gate, approximate="tanh") * value


times = 5 / 3


# %% 00.2: check the formula term by term
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**2)
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


times = 7


# %% 00.2: what each of your 9 operations
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


times = 9  # the number of operations
