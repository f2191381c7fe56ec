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
