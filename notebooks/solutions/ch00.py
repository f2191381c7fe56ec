# Answers to the exercises of notebook 00. Try first: a hint costs nothing.

# %% 00.1
from helpers import graphs


def compile_and_prove(model, *inputs):
    compiled = torch.compile(model)
    found = graphs(model, *inputs)
    whole = found.count == 1 and not found.breaks
    same = torch.allclose(
        compiled(*inputs), model(*inputs), rtol=1e-4, atol=1e-5
    )
    return compiled, whole and same


# %% 00.2
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


# Six operations on one array move 2 arrays each, three on two arrays move 3:
# 21 in all.  The kernel reads 2 and writes 1.
times = 21 / 3
