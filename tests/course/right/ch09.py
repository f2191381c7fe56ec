# Other right answers to the exercises of notebook 09.


# %% 09.1: one stage after the other
def deepest(block_m, block_n, block_k, itemsize, limit, instruction):
    stages, left = 0, limit
    while (
        left := left - block_m * block_k * itemsize - block_k * block_n * itemsize
    ) >= 0:
        stages += 1
    return stages + (instruction == "mma" and stages > 0)


# %% 09.2: tile by tile, and wave by wave
def plan(shape, tile, room, itemsize=2):
    rows, depth, columns = shape
    corners = [
        (row, column)
        for row in range(0, rows, tile[0])
        for column in range(0, columns, tile[1])
    ]
    waves = [corners[n : n + room] for n in range(0, len(corners), room)]
    read = sum(sum(tile) * depth * itemsize for _ in corners)
    return [len(corners), read, len(waves), len(waves[-1])]
