# Wrong answers to the exercises of lesson 07, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch07.py.


# %% 07.1: right, and not recognised
def recognised(q, k, v):
    q = q * q.shape[-1] ** -0.5
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


# %% 07.1: it computes something else
def recognised(q, k, v):
    return ((q @ k.transpose(-2, -1)) * 0.25).softmax(-1) @ v


# %% 07.2: one that is reused: the most at one time is 64 bytes, and you said 128
# -         elif reused := re.match(r"(\w+) = (\w+); del \2", line):
# -             alive[reused[1]] = alive.pop(reused[2])
# +
# - del alive[line[4:]]
# + alive.pop(line[4:], None)


# %% 07.2: one that is freed before the next
# -         elif line.startswith("del buf"):
# -             del alive[line[4:]]
