# Wrong answers to the exercises of lesson 08, each with what it must be told.


# %% 08.1: belongs to b, x1 is the row
def lost(a, b, c):
    h = a * b
    return torch.where(h > 0, h, 0.1 * a) + c


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


# %% 08.2: n = 1000 in float32: IndexError: stores outside its buffers
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(h + i, mask=i < n)
    b = tl.load(x + i, mask=i < n)
    tl.store(out + i, b + a * 0.5 * (1 + tl.erf(a * 0.7071067811865476)))


# %% 08.2: 768 of 1024 were never written, 256 to 1023
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)  # every program takes the first block
    a = tl.load(h + i, mask=i < n)
    b = tl.load(x + i, mask=i < n)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, b + a * half, mask=i < n)


# %% 08.2: GELU's tanh form
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(h + i, mask=inside)
    b = tl.load(x + i, mask=inside)
    inner = 0.7978845608028654 * (a + 0.044715 * a * a * a)
    tl.store(out + i, b + a * tl.sigmoid(2 * inner), mask=inside)


# %% 08.2: bfloat16 has no such arithmetic
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(h + i, mask=i < n)  # stays bfloat16, where there is no erf
    b = tl.load(x + i, mask=i < n)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, b + a * half, mask=i < n)


# %% 08.2: with 3 loads where
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(h + i, mask=i < n).to(tl.float32)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, a * half, mask=i < n)  # one step after the other, as in eager
    b = tl.load(out + i, mask=i < n).to(tl.float32)
    tl.store(out + i, b + tl.load(x + i, mask=i < n), mask=i < n)


# %% 08.2: a Triton kernel cannot call gelu
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(h + i, mask=i < n)
    b = tl.load(x + i, mask=i < n)
    tl.store(out + i, b + torch.nn.functional.gelu(a), mask=i < n)
