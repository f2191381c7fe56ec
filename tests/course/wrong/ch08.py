# Wrong answers to the exercises of lesson 08, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch08.py.


# %% 08.1: what is multiplied by 0.1 is a
def lost(a, b, c):
    return torch.nn.functional.leaky_relu(a * b, 0.1) + c[:, None]


# %% 08.1: the product decides
def lost(a, b, c):
    return torch.where(a > 0, a * b, 0.1 * a) + c[:, None]


# %% 08.1: to every element
def lost(a, b, c):
    h = a * b
    return torch.where(h > 0, h + c[:, None], 0.1 * a)


# %% 08.2: n = 1000 in float32, BLOCK = 256: IndexError: stores outside its buffers
# - tl.store(out + i, b + a * half, mask=inside)
# + tl.store(out + i, b + a * half)


# %% 08.2: 744 of 1000 were never written, 256 to 999
# - tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
# + tl.arange(0, BLOCK)  # every program takes the first block


# %% 08.2: GELU's tanh form
# - 0.5 * (1 + tl.erf(a * 0.7071067811865476))
# + tl.sigmoid(1.5957691216057308 * (a + 0.044715 * a * a * a))


# %% 08.2: tl.load(...).to(tl.float32)
# - a = tl.load(h + i, mask=inside).to(tl.float32)
# + a = tl.load(h + i, mask=inside)  # stays bfloat16, where there is no erf


# %% 08.2: a Triton kernel cannot call gelu
# - a * half
# + torch.nn.functional.gelu(a)


# %% 08.1: tmp4 is False where the product is 0
# - h > 0
# + h >= 0


# %% 08.1: the numbers are off by
# - 0.1 * a
# + 0.01 * a


# %% 08.2: outside its buffers
# - b = tl.load(x + i, mask=inside)
# + b = tl.load(x + i)


# %% 08.2: 1 of 1000 were never written, 999 to 999
# - inside = i < n
# + inside = i < n - 1


# %% 08.2: numbers are wrong
# - b + a * half
# + a * half


# %% 08.2: BLOCK = 512: 487 of 999 were never written, 512 to 998
# - tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
# + tl.program_id(0) * 256 + tl.arange(0, 256)  # only one BLOCK is 256
