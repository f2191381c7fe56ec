# Answers to the exercises of notebook 06. Try first: a hint costs nothing.


# %% 06.1
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    """Store x + gelu(h) in out: n numbers, BLOCK of them a program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(h + i, mask=inside).to(tl.float32)
    b = tl.load(x + i, mask=inside).to(tl.float32)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, b + a * half, mask=inside)


# %% 06.2
def padded(logits):
    """Return the logits with more columns: same probabilities, wide loads."""
    columns = 16 // logits.element_size()
    extra = -logits.shape[1] % columns
    return torch.nn.functional.pad(logits, (0, extra), value=float("-inf"))


# %% 06.3
@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    """Store the softmax of one row of x in out."""
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=i < columns)
