# Answers to the exercises of notebook 00. Try first: a hint costs nothing.

# %% 00.1
from helpers import graphs


def went_well(model, *inputs):
    found = graphs(model, *inputs)
    whole = found.count == 1 and not found.breaks
    eager, compiled = model(*inputs), torch.compile(model)(*inputs)
    return whole and torch.allclose(compiled, eager, rtol=1e-4, atol=1e-5)
