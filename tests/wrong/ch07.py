# Wrong answers to the exercises of lesson 07, each with what it must be told.


# %% 07.1: right, and not recognised
def recognised(q, k, v):
    q = q * q.shape[-1] ** -0.5
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


# %% 07.1: it computes something else
def recognised(q, k, v):
    return ((q @ k.transpose(-2, -1)) * 0.25).softmax(-1) @ v


# %% 07.1: calls the library by hand
def recognised(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


# %% 07.2: counted twice
def peak_bytes(lines):
    import re

    alive, peak = {}, 0
    new = r"(\w+) = empty_strided_\w+\(\((.*?)\), .*torch\.(\w+)\)"
    for line in lines:
        if made := re.match(new, line):
            size = getattr(torch, made[3]).itemsize
            for n in re.findall(r"\d+", made[2]):
                size *= int(n)
            alive[made[1]] = size
        elif line.startswith("del buf"):
            alive.pop(line[4:], None)
        peak = max(peak, sum(alive.values()))
    return peak


# %% 07.2: one that is freed before the next
def peak_bytes(lines):
    import re

    total = 0
    for sizes, dtype in re.findall(
        r"empty_strided_\w+\(\((.*?)\), .*torch\.(\w+)\)", "\n".join(lines)
    ):
        size = getattr(torch, dtype).itemsize
        for n in re.findall(r"\d+", sizes):
            size *= int(n)
        total += size
    return total
