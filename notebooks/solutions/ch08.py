# Answers of lesson 08. Open them after you have tried.


# %% 08.1
def lost(a, b, c):
    """Return what the kernel stores: (50, 96), for a (50, 96) and 1-D b, c."""
    h = a * b
    return torch.where(h > 0, h, 0.1 * a) + c[:, None]


# %% 08.2
@triton.jit
def standardise(x, out, columns, BLOCK: tl.constexpr):
    """Store one standardized row of x in out: a program for each row."""
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=0.0)
    d = tl.where(i < columns, v - tl.sum(v, 0) / columns, 0.0)
    variance = tl.sum(d * d, 0) / columns
    tl.store(out + at, d / tl.sqrt(variance + 1e-6), mask=i < columns)
