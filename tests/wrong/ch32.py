# Wrong answers to the exercises of notebook 32, each with what it must be told.


# %% 32.1: refused for its memory
def refuse(row):  # float32, whatever the row says
    from helpers import plausible

    work, trips, arrays = (6, 7, 4) if row.trains else (2, 1, 1)
    return plausible(
        row.chip,
        row.seconds,
        flops=work * row.parameters * row.tokens,
        moved=trips * 4 * row.parameters,
        memory=arrays * 4 * row.parameters,
    ).broken


# %% 32.1: not refused
def refuse(row):  # the peak alone
    from helpers import plausible

    work = (6 if row.trains else 2) * row.parameters * row.tokens
    return plausible(row.chip, row.seconds, flops=work, dtype=row.dtype).broken


# %% 32.1: return the names of what is broken
def refuse(row):
    from helpers import plausible

    return plausible(row.chip, memory=2 * row.parameters).verdict


# %% 32.2: the fewest is 1500
def paid_back(extra, low, high):
    import math

    ends = sorted(math.ceil(extra / gain) for gain in (low, high) if gain)
    return ends[0], ends[-1]


# %% 32.2: the fewest is 11
def paid_back(extra, low, high):
    return (
        extra / high if high > 0 else float("inf"),
        extra / low if low > 0 else float("inf"),
    )
