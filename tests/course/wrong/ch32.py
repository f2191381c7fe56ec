# Wrong answers to the exercises of notebook 32, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch32.py.


# %% 32.1: refused for its memory
# - {"float32": 4, "bfloat16": 2}[row.dtype]
# + 4


# %% 32.1: not refused
# -         moved=trips * array,
# -         memory=arrays * array,


# %% 32.1: return the names of what is broken
# - ).broken
# + ).verdict


# %% 32.2: the most is inf
# - if gain > 0 else math.inf
# + if gain else math.inf


# %% 32.2: the fewest is 11
# - math.ceil(extra / gain)
# + extra / gain
