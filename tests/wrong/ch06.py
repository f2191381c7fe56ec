# Wrong answers to the exercises of notebook 06, each with what it must be told.


# %% 06.1: n = 1000 in float32: IndexError: stores outside its buffers
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(h + i, mask=i < n)
    b = tl.load(x + i, mask=i < n)
    tl.store(out + i, b + a * 0.5 * (1 + tl.erf(a * 0.7071067811865476)))


# %% 06.1: 768 of 1024 were never written, 256 to 1023
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)  # every program takes the first block
    a = tl.load(h + i, mask=i < n)
    b = tl.load(x + i, mask=i < n)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, b + a * half, mask=i < n)


# %% 06.1: GELU's tanh form
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(h + i, mask=inside)
    b = tl.load(x + i, mask=inside)
    inner = 0.7978845608028654 * (a + 0.044715 * a * a * a)
    tl.store(out + i, b + a * tl.sigmoid(2 * inner), mask=inside)


# %% 06.1: bfloat16 has no such arithmetic
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(h + i, mask=i < n)  # stays bfloat16, where there is no erf
    b = tl.load(x + i, mask=i < n)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, b + a * half, mask=i < n)


# %% 06.1: with 3 loads where
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(h + i, mask=i < n).to(tl.float32)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, a * half, mask=i < n)  # one step after the other, as in eager
    b = tl.load(out + i, mask=i < n).to(tl.float32)
    tl.store(out + i, b + tl.load(x + i, mask=i < n), mask=i < n)


# %% 06.2: the probabilities change
def padded(logits):
    columns = 16 // logits.element_size()
    return torch.nn.functional.pad(logits, (0, -logits.shape[1] % columns))


# %% 06.2: in bfloat16: padded to 4004
def padded(logits):
    extra = -logits.shape[1] % 4  # 16 bytes of float32, and 8 of bfloat16
    return torch.nn.functional.pad(logits, (0, extra), value=float("-inf"))


# %% 06.2: are no longer the logits
def padded(logits):
    extra = -logits.shape[1] % 16
    return torch.nn.functional.pad(logits, (extra, 0), value=float("-inf"))


# %% 06.3: The maximum sees it
@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=0.0)
    e = tl.exp(v - tl.max(v, 0))  # the maximum sees the zeros, the sum does not
    e = tl.where(i < columns, e, 0.0)
    tl.store(out + at, e / tl.sum(e, 0), mask=i < columns)


# %% 06.3: exp(1000) is inf
@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    e = tl.exp(tl.load(x + at, mask=i < columns, other=float("-inf")))
    tl.store(out + at, e / tl.sum(e, 0), mask=i < columns)


# %% 06.3: 5 rows of 100 columns: IndexError: loads outside its buffers
@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + i  # rows lie columns apart, not BLOCK
    v = tl.load(x + at, mask=i < columns, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=i < columns)
