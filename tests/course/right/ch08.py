# Other right answers to the exercises of lesson 08.


# %% 08.1: by arithmetic, without where
def lost(a, b, c):
    h = a * b
    yes = (h > 0).to(a.dtype)
    return yes * h + (1 - yes) * a * 0.1 + c.reshape(50, 1)


# %% 08.2: other names, a helper, and the mask in parts
@triton.jit
def _gelu(v):
    return v * 0.5 + v * 0.5 * tl.math.erf(v / 1.4142135623730951)


@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    begin = tl.program_id(axis=0) * BLOCK
    at = begin + tl.arange(0, BLOCK)
    v = tl.load(h + at, at < n, other=0.0).to(tl.float32)
    total = _gelu(v) + tl.load(x + at, at < n, other=0.0).to(tl.float32)
    tl.store(out + at, total.to(out.dtype.element_ty), at < n)
