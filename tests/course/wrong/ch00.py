# Wrong answers to the exercises of notebook 00, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch00.py.


# %% 00.1: what you return first runs eagerly
def compile_and_prove(model, *inputs):
    torch.compile(model)
    return model, True


# %% 00.1: has a graph break
# - whole and same
# + same


# %% 00.1: not with the default backend
# - torch.compile(model)
# + torch.compile(model, backend="eager")


# %% 00.1: not with the default backend
# - torch.compile(model)
# + torch.compile(model, backend="aot_eager")


# %% 00.1: off by a thousandth
# - rtol=1e-4, atol=1e-5
# + rtol=0.1, atol=0.1


# %% 00.1: a function that prints before it returns
# - found.count == 1 and not found.breaks
# + found.count == 1


# %% 00.1: a function of which nothing is captured
# - found.count == 1 and not found.breaks
# + not found.breaks


# %% 00.1: all is well with a function that adds 1 once it is compiled
# - compiled(*inputs), model(*inputs), rtol=1e-4, atol=1e-5
# + model(*inputs), model(*inputs), rtol=1e-4, atol=1e-5


# %% 00.1: differs from eager by rounding alone
# - allclose
# + equal
# - , rtol=1e-4, atol=1e-5


# %% 00.2: so the library does the work
def gelu_gate(gate, value):
    return torch.nn.functional.gelu(gate, approximate="tanh") * value


times = 5 / 3


# %% 00.2: check the formula term by term
# - 0.5 * gate * (1 + torch.tanh(inner)) * value
# + gate * torch.sigmoid(1.702 * gate) * value  # the sigmoid form


# %% 00.2: check the formula term by term
# - gate**3
# + gate**2


# %% 00.2: each of your 9 operations
# - 21 / 3
# + 9  # the number of operations
