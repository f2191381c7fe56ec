# %% 30.1: refused for its memory
# - {"float32": 4, "bfloat16": 2}[row.dtype]
# + 4

# %% 30.1: not refused
# -         moved=trips * array,
# -         memory=arrays * array,

# %% 30.1: refused for its arithmetic, memory, which is not broken
def refuse(row):
    yield from ("arithmetic", "bandwidth", "memory")


# %% 30.1: not refused, though it breaks its bandwidth
# -         moved=trips * array,
# +         moved=trips * 2 * row.parameters,

# %% 30.1: not refused, though it breaks its arithmetic
# -         dtype=row.dtype,

# %% 30.1: not refused, though it breaks its memory
# -         memory=arrays * array,
# +         memory=arrays * array if row.trains else None,

# %% 30.1: not refused, though it breaks its bandwidth, memory
# - ).broken
# + ).broken[:1]

# %% 30.1: refused for its memory, which is not broken
# - (2, 1, 1)
# + (2, 1, 2)

# %% 30.1: return the names of what is broken
# -     return plausible(
# +     return len(plausible(
# - ).broken
# + ).broken) > 0

# %% 30.1: refused for its memory
# - memory=arrays * array
# + memory=(arrays if row.trains else 1.2) * array
