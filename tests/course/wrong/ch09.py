# %% 09.1: 64 x 128 x 32 in bfloat16, H100: you return 19, and it is 18
# - pairs + 1 if instruction == "mma" else pairs
# + pairs + 1

# %% 09.1: 64 x 64 x 32 in float8, H100: you return 28
# - * itemsize
# + * 2

# %% 09.1: 128 x 128 x 64 on an RTX 3090: you return 3, and it is 4
# - pairs + 1 if instruction == "mma" else pairs
# + pairs

# %% 09.2: 512 x 1030, a tile for six columns: you return 32, and it is 36
# - -(-rows // high) * -(-columns // wide)
# + round(rows / high) * round(columns / wide)

# %% 09.2: a last wave that is full: you return 0, and it is 16
# - programs % room or room
# + programs % room

# %% 09.2: 260 x 1000, tiles of 128 x 64: you return 40, and it is 48
# - high, wide = tile
# + wide, high = tile

# %% 09.1: one pair, to the byte, with mma: you return 1, and it is 2
# - pairs + 1 if instruction == "mma" else pairs
# + pairs if instruction == "wgmma" else -(-limit // stage)

# %% 09.1: 64 x 128 x 32 in bfloat16, H100: you return 18.0, and it is 18
# -     pairs = limit // stage
# +     pairs = float(limit // stage)

# %% 09.1: 64 x 64 x 32 in float32, with mma: you return 13, and it is 7
def deepest(block_m, block_n, block_k, itemsize, limit, instruction):
    itemsize = 1 if itemsize == 1 else 2
    pairs = limit // ((block_m + block_n) * block_k * itemsize)
    return pairs + (instruction == "mma")


# %% 09.2: one tile: you return 0, and it is 1
# - return programs % room or room
# + waves = programs / room  # this passed once
# +     return int((waves + (-waves // 1) + 1) * room)

# %% 09.1: 32 x 32 x 64 in float8, with mma: you return 26, and it is 25
# - pairs + 1 if
# + round(limit / stage) + 1 if
