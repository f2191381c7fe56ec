# Wrong answers to the exercises of lesson 08, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch08.py.


# %% 08.1: the numbers are off by
def lost(a, b, c):
    return torch.nn.functional.leaky_relu(a * b, 0.1) + c[:, None]


# %% 08.1: the numbers are off by
# - h > 0
# + h >= 0


# %% 08.2: rows are `columns` apart
# - tl.program_id(0) * columns
# + tl.program_id(0) * BLOCK


# %% 08.2: past them d must be 0
# - tl.where(i < columns, v - tl.sum(v, 0) / columns, 0.0)
# + v - tl.sum(v, 0) / columns


# %% 08.2: stores outside its buffers
# - variance + 1e-6), mask=i < columns)
# + variance + 1e-6))


# %% 08.2: a Triton kernel with the parameters
def standardise(x, out, columns, BLOCK):
    return x


# %% 08.1: your answer raised RuntimeError: The size of tensor
# - c[:, None]
# + c
