# Wrong answers to the exercises of notebook 09, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch09.py.


# %% 09.1: 64 x 128 x 32 in bfloat16 on an H100: 18 stages fit, and yours is 19
# - pairs + 1 if pairs and instruction == "mma" else pairs
# + pairs + 1


# %% 09.1: 64 x 128 x 32 in bfloat16 on an H100: 18 stages fit
# -     stage = (block_m * block_k + block_k * block_n) * itemsize
# +     stage = block_m * block_n * itemsize  # the result's tile


# %% 09.1: 64 x 64 x 32 in float8 on an H100
# - * itemsize
# + * 2


# %% 09.1: tiles of which not one pair fits: 0 stages fit, and yours is 1
# -     pairs = limit // stage
# +     pairs = max(1, limit // stage)


# %% 09.2: 500 x 100 by 100 x 1000, whose tiles stick out: programs is 32, and yours 21
# -     programs = -(-rows // high) * -(-columns // wide)
# +     programs = (rows // high) * (columns // wide)


# %% 09.2: bytes is 50331648, and yours 5242880
# -     read = programs * (high + wide) * depth * itemsize
# +     read = (rows * depth + depth * columns) * itemsize


# %% 09.2: room for 528: waves is 1, and yours 0
# -     waves = -(-programs // room)
# +     waves = programs // room


# %% 09.2: a last wave that is full: last is 16, and yours 0
# - programs - (waves - 1) * room
# + programs % room


# %% 09.2: float32: bytes is
# - * itemsize
# + * 2


# %% 09.2: itemsize is 2 where none is given
# - itemsize=2
# + itemsize=4


# %% 09.2: tiles of 128 rows and 64 columns: programs is 48, and yours 40
# - high, wide = tile
# + wide, high = tile


# %% 09.2: programs is 128, and yours 64
# -     rows, depth, columns = shape
# +     rows, columns, depth = shape


# %% 09.1: 18 stages fit, and yours is 18.9
# - limit // stage
# + limit / stage


# %% 09.1: a number of stages is an int, and yours is 18.0
# -     pairs = limit // stage
# +     pairs = float(limit // stage)


# %% 09.1: 128 x 128 x 64 in bfloat16 on an RTX 3090: 4 stages fit, and yours is 3
# - pairs + 1 if pairs and instruction == "mma" else pairs
# + pairs


# %% 09.1: not one pair fits, with mma: 0 stages fit, and yours is 1
# - if pairs and
# + if


# %% 09.2: room for 528: waves is 1, and yours 1.0
# -     waves = -(-programs // room)
# +     waves = float(-(-programs // room))
