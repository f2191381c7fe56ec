# Wrong answers to the exercises of notebook 30, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch30.py.


# %% 30.1: refused for its memory
# - {"float32": 4, "bfloat16": 2}[row.dtype]
# + 4


# %% 30.1: not refused
# -         moved=trips * array,
# -         memory=arrays * array,


# %% 30.1: return the names of what is broken
# - ).broken
# + ).verdict


# %% 30.2: the most is inf
# - if gain > 0 else math.inf
# + if gain else math.inf


# %% 30.2: the fewest is 11
# - math.ceil(extra / gain)
# + extra / gain


# %% 30.1: refused for its bandwidth, which is not broken
# - (2, 1, 1)
# + (2, 7, 1)


# %% 30.1: not refused, though it breaks its arithmetic
# - (6, 7, 4)
# + (2, 7, 4)


# %% 30.2: the fewest is 1500, not 3000
# - return calls(high), calls(low)
# + return calls(low), calls(high)


# %% 30.2: the fewest is 11, not 10
# - math.ceil(extra / gain)
# + round(extra / gain)


# %% 30.1: refused for its memory, which is not broken
# - (2, 1, 1)
# + (2, 1, 4)


# %% 30.1: refused for its arithmetic, which is not broken
# - (2, 1, 1)
# + (6, 1, 1)


# %% 30.1: refused for its bandwidth, which is not broken
# - (6, 7, 4)
# + (6, 8, 4)


# %% 30.1: not refused, though it breaks its arithmetic
# -         dtype=row.dtype,


# %% 30.1: not refused, though it breaks its memory
# -         memory=arrays * array,
# +         memory=arrays * array if row.trains else None,


# %% 30.2: the fewest is 1500, not inf
# -     return calls(high), calls(low)
# +     return (calls(high), calls(low)) if low > 0 else (math.inf, math.inf)


# %% 30.2: the most is 3000, not 2000
# -     return calls(high), calls(low)
# +     return calls(high), calls((low + high) / 2)


# %% 30.2: and that is no int
# -         return math.ceil(extra / gain) if gain > 0 else math.inf
# +         return -(-extra // gain) if gain > 0 else math.inf
