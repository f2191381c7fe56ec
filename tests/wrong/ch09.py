# Wrong answers to the exercises of lesson 09, each with what it must be told.


# %% 09.1: rows lie `columns` apart
@triton.jit
def standardise(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + i
    v = tl.load(x + at, mask=i < columns, other=0.0)
    d = tl.where(i < columns, v - tl.sum(v, 0) / columns, 0.0)
    variance = tl.sum(d * d, 0) / columns
    tl.store(out + at, d / tl.sqrt(variance + 1e-6), mask=i < columns)


# %% 09.1: the mean is divided by BLOCK: a row
@triton.jit
def standardise(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=0.0)
    d = tl.where(i < columns, v - tl.sum(v, 0) / BLOCK, 0.0)
    variance = tl.sum(d * d, 0) / columns
    tl.store(out + at, d / tl.sqrt(variance + 1e-6), mask=i < columns)


# %% 09.1: the variance sees it
@triton.jit
def standardise(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=0.0)
    d = v - tl.sum(v, 0) / columns
    variance = tl.sum(d * d, 0) / columns
    tl.store(out + at, d / tl.sqrt(variance + 1e-6), mask=i < columns)


# %% 09.2: Which bias gives probability 0
def padded(weight, bias):
    extra = -len(bias) % (16 // bias.element_size())
    pad = torch.nn.functional.pad
    return pad(weight, (0, extra)), pad(bias, (0, extra))


# %% 09.2: a thread loads 4 bytes at a time
def padded(weight, bias):
    return weight, bias


# %% 09.2: is there an inf in the weight
def padded(weight, bias):
    extra = -len(bias) % (16 // bias.element_size())
    pad = torch.nn.functional.pad
    return (
        pad(weight, (0, extra), value=float("-inf")),
        pad(bias, (0, extra), value=float("-inf")),
    )
