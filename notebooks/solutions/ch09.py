# Answers to the exercises of notebook 09. Try first: a hint costs nothing.


# %% 09.1
def deepest(block_m, block_n, block_k, itemsize, limit, instruction):
    """Return the most stages that fit into *limit* bytes of shared memory."""
    stage = (block_m * block_k + block_k * block_n) * itemsize
    pairs = limit // stage
    return pairs + 1 if pairs and instruction == "mma" else pairs


# %% 09.2
def plan(shape, tile, room, itemsize=2):
    """Return (programs, bytes, waves, last)."""
    rows, depth, columns = shape
    high, wide = tile
    programs = -(-rows // high) * -(-columns // wide)
    read = programs * (high + wide) * depth * itemsize
    waves = -(-programs // room)
    return programs, read, waves, programs - (waves - 1) * room
