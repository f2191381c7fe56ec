# Other right answers to the exercises of lesson 08.


# %% 09.1: by the mean of the squares
@triton.jit
def standardise(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    v = tl.load(x + row * columns + i, inside, other=0.0)
    mean = tl.sum(v, axis=0) / columns
    square = tl.sum(v * v, axis=0) / columns
    scale = tl.rsqrt(square - mean * mean + 1e-6)
    tl.store(out + row * columns + i, (v - mean) * scale, inside)


# %% 09.2: with new tensors, to the next multiple of 16
def padded(weight, bias):
    words = -(-len(bias) // 16) * 16
    wide = weight.new_zeros(len(weight), words)
    wide[:, : len(bias)] = weight
    long = bias.new_full((words,), float("-inf"))
    long[: len(bias)] = bias
    return wide, long
