# Wrong answers to the exercises of notebook 18, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old18.py.


# %% 18.1: tail: it does not notice
# - torch.randn(1003)
# + torch.randn(64, 256)


# %% 18.1: repeats: it does not notice
# - [1, 1, 2]
# + [0, 1, 2]


# %% 18.1: nan: it does not notice; does torch.maximum get a NaN first
# - (torch.maximum, (number_or_nan, torch.zeros(2)))
# + (torch.maximum, (torch.zeros(2), number_or_nan))


# %% 18.1: tail: it complains of a healthy compiler
# - (torch.sin, (torch.randn(1003),))
# + (lambda x: torch.rand(1003) * x, (torch.randn(1003),))


# %% 18.1: tail: it does not notice; how many elements does its innermost loop have? A
# - torch.randn(1003)
# + torch.randn(3)


# %% 18.1: repeats: it does not notice; is it an embedding
# - torch.nn.functional.embedding, (index, table)
# + lambda index, table: table[index], (index, table)


# %% 18.2: a function with a graph break: you say "right"
# - len(graphs) != 1
# + not graphs


# %% 18.2: a gradient that is too large: you say "right"
# - right_values(function, compiled, *inputs)
# + torch.allclose(compiled(*inputs), function(*inputs))


# %% 18.2: a wrapper that does not compile: you say "right"
# - compiled = wrap(function, backend=backend)
# + compiled = torch.compile(function, backend=backend)
# - wrap(function, backend=doubling)
# + torch.compile(function, backend=doubling)


# %% 18.2: a result that is off: you say "right"
# - right_values(function, compiled, *inputs)
# + gradients_agree(function, compiled, *inputs)
# - def verdict(function, wrap, *inputs):
# + def gradients_agree(*both_and_inputs):
# +     found = []
# +     for call in both_and_inputs[:2]:
# +         leaves = [x.clone().requires_grad_() for x in both_and_inputs[2:]]
# +         found.append(torch.autograd.grad(call(*leaves), leaves))
# +     return all(map(torch.allclose, *found))
# +
# +
# + def verdict(function, wrap, *inputs):


# %% 18.2: missing 1 required positional argument
# - right_values(function, compiled, *inputs)
# + right_values(function, compiled, inputs[0])


# %% 18.2: a wrapper that compiles another program: you say "right"
# - len(graphs) != 1 or another
# + len(graphs) != 1
