# %% 09.2: with math.ceil
def last_wave(rows, columns, tile, room):
    import math

    programs = math.ceil(rows / tile[0]) * math.ceil(columns / tile[1])
    return programs - (math.ceil(programs / room) - 1) * room
