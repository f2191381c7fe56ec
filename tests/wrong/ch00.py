# Wrong answers to the exercises of notebook 00, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch00.py.


# %% 00.1: what you return first runs eagerly
def compile_and_prove(model, *inputs):
    torch.compile(model)
    return model, True


# %% 00.1: has a graph break
# - whole and same
# + same


# %% 00.1: differs from eager by rounding alone
# - allclose
# + equal
# - , rtol=1e-4, atol=1e-5


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
# - gate**3
# + gate**2


# %% 00.2: what each of your 9 operations
# - 21 / 3
# + 9  # the number of operations
