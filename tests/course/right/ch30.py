# Other right answers to the exercises of notebook 30.


# %% 30.1: by hand, from the chip's own numbers
from course.ch30.limits import Chip


def refuse(row):
    chip, array = (
        Chip.find(row.chip),
        row.parameters * getattr(torch, row.dtype).itemsize,
    )
    least = {
        "arithmetic": (6 if row.trains else 2)
        * row.parameters
        * row.tokens
        / chip.peak(row.dtype),
        "bandwidth": (7 if row.trains else 1) * array / chip.bytes_per_s,
    }
    broken = [name for name, seconds in least.items() if seconds > row.seconds]
    return broken + ["memory"] * ((4 if row.trains else 1) * array > chip.memory)


# %% 30.1: each ceiling asked alone, as a set of names
def refuse(row):
    from course.ch30.limits import plausible

    array = row.parameters * (4 if row.dtype == "float32" else 2)
    if row.trains:
        flops, moved, memory = 6 * row.parameters * row.tokens, 7 * array, 4 * array
    else:
        flops, moved, memory = 2 * row.parameters * row.tokens, array, array
    asked = (
        plausible(row.chip, row.seconds, flops=flops, dtype=row.dtype),
        plausible(row.chip, row.seconds, moved=moved),
        plausible(row.chip, memory=memory),
    )
    return {name for one in asked for name in one.broken}


# %% 30.2: a loop over both ends, without math
def paid_back(extra, low, high):
    found = []
    for gain in (high, low):
        if gain <= 0:
            found.append(float("inf"))
        else:
            calls = int(extra / gain)
            found.append(calls if calls >= extra / gain else calls + 1)
    return tuple(found)
