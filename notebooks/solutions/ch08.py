# Answers of lesson 08. Open them after you have tried.


# %% 08.1
def lost(a, b, c):
    """Return what the kernel stores: (50, 96), for a (50, 96) and 1-D b, c."""
    h = a * b
    return torch.where(h > 0, h, 0.1 * a) + c[:, None]


# %% 08.2
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    """Store x + gelu(h) in out: n numbers, BLOCK of them a program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a = tl.load(h + i, mask=inside).to(tl.float32)
    b = tl.load(x + i, mask=inside).to(tl.float32)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, b + a * half, mask=inside)
