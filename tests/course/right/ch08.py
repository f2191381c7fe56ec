# %% 08.1: by arithmetic, without where
def lost(a, b, c):
    h = a * b
    yes = (h > 0).to(a.dtype)
    return yes * h + (1 - yes) * a * 0.1 + c.reshape(50, 1)


# %% 08.2: d once more, outside of the row
@triton.jit
def standardise(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    v = tl.load(x + row * columns + i, inside, other=0.0)
    d = v - tl.sum(v, axis=0) / columns
    scale = tl.rsqrt(tl.sum(tl.where(inside, d * d, 0.0), axis=0) / columns + 1e-6)
    tl.store(out + row * columns + i, d * scale, inside)
