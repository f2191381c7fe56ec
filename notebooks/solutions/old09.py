# Answers of lesson 08. Open them after you have tried.


# %% 09.1
@triton.jit
def standardise(x, out, columns, BLOCK: tl.constexpr):
    """Store one standardised row of x in out: a program for each row."""
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=0.0)
    d = tl.where(i < columns, v - tl.sum(v, 0) / columns, 0.0)
    variance = tl.sum(d * d, 0) / columns
    tl.store(out + at, d / tl.sqrt(variance + 1e-6), mask=i < columns)


# %% 09.2
def padded(weight, bias):
    """Return float32 weight (width, words) and bias (words,), widened."""
    extra = -len(bias) % (16 // bias.element_size())
    pad = torch.nn.functional.pad
    return pad(weight, (0, extra)), pad(bias, (0, extra), value=float("-inf"))
