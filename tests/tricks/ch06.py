# Tricks that must not pass notebook 06, and other answers that must.


# %% 06.1: that is no Triton kernel
class add_gelu:
    arg_names = ("h", "x", "out", "n", "BLOCK")
    fn = staticmethod(lambda *tensors: tensors)

    def __class_getitem__(cls, grid):  # launched, it lets PyTorch do it
        def launch(h, x, out, n, BLOCK):
            out.copy_(x + torch.nn.functional.gelu(h))

        return launch


# %% 06.1: n = 1000 in float32
@triton.jit
def add_gelu(h, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < 1024  # the first n of the check
    a = tl.load(h + i, mask=inside).to(tl.float32)
    b = tl.load(x + i, mask=inside).to(tl.float32)
    half = 0.5 * (1 + tl.erf(a * 0.7071067811865476))
    tl.store(out + i, b + a * half, mask=inside)


# %% 06.1 also: other names, a helper, and the mask in parts
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


# %% 06.2: a thread loads
def padded(logits):
    return logits  # as it was


# %% 06.3: that is no Triton kernel
class softmax_rows:
    arg_names = ("x", "out", "columns", "BLOCK")
    fn = staticmethod(lambda *tensors: tensors)

    def __class_getitem__(cls, grid):
        return lambda x, out, columns, BLOCK: out.copy_(x.softmax(-1))


# %% 06.3: 5 rows of 100 columns
@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < 128, other=float("-inf"))  # the first case
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=i < 128)


# %% 06.3 also: exp2, and a sum that leaves out the rest
@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    v = tl.load(x + row * columns + i, mask=inside, other=-3e38) * 1.4426950408889634
    e = tl.exp2(v - tl.max(v, axis=0))
    total = tl.sum(tl.where(inside, e, 0.0), axis=0)
    tl.store(out + row * columns + i, e * (1.0 / total), mask=inside)
