# %% 02.1: on a quiet device, from the launch to the end of the work
# -         launch()
# -         wait()
# +         launch()

# %% 02.1: where the first call compiles
def seconds_per_call(launch, wait, now):
    begin = now()
    for _ in range(21):
        launch()
        wait()
    return (now() - begin) / 21


# %% 02.1: where one call in ten is interrupted
# - statistics.median(times)
# + sum(times) / len(times)

# %% 02.2: calls vary by a tenth
# - if wins >= 24:
# + if wins > 15:
# - return "slower" if wins <= 6 else "cannot tell"
# + return "slower"


# %% 02.2: a mean follows the few long calls
def race_of(eager, compiled):
    pairs = [(eager(), compiled()) for _ in range(30)]
    ratio = sum(a for a, _ in pairs) / sum(b for _, b in pairs)
    if ratio > 1.1:
        return "faster"
    return "slower" if ratio < 1 / 1.1 else "cannot tell"


# %% 02.2: not by how much
def race_of(eager, compiled):
    from statistics import median

    ratio = median(eager() / compiled() for _ in range(30))
    if ratio > 1.1:
        return "faster"
    return "slower" if ratio < 1 / 1.1 else "cannot tell"


# %% 02.2: such a difference can be told
def race_of(eager, compiled):
    wins = sum(eager() > compiled() for _ in range(30))
    return "faster" if wins >= 24 else "cannot tell"  # never "slower"


# %% 02.2: each go first in half of them
# - if turn % 2:
# + if True:


# %% 02.1: where the work takes longer
def seconds_per_call(launch, wait, now):
    for _ in range(6):
        launch()
    return 2e-3  # measured once, by hand


# %% 02.2: calls vary threefold
def race_of(eager, compiled):
    ratios = []
    for _ in range(500):
        ratios.append(eager() / compiled())
        ratios.append(1 / (compiled() / eager()))
    ratio = torch.tensor(ratios).median().item()
    if ratio > 1.015:  # a threshold that somebody likes
        return "faster"
    return "slower" if ratio < 1 / 1.015 else "cannot tell"


# %% 02.2: which side goes first in a turn should change
def race_of(eager, compiled):
    a, b = [], []
    for _ in range(100):
        a.append(eager())
        b.append(compiled())
    ratio = min(a) / min(b)
    if ratio > 1.04:
        return "faster"
    return "slower" if ratio < 1 / 1.04 else "cannot tell"


# %% 02.1: where the launch takes longer
# -         begin = now()
# -         launch()
# -         wait()
# -         times.append(now() - begin)
# +         launch()
# +         begin = now()
# +         wait()
# +         times.append(now() - begin + 0.4e-3)


# %% 02.2: compare within the pairs
def race_of(eager, compiled):
    import statistics

    turns = [(eager(), compiled()) for _ in range(30)]
    (low, _, high), (least, _, most) = (
        statistics.quantiles(side, n=4) for side in zip(*turns, strict=True)
    )
    return "faster" if low > most else "slower" if least > high else "cannot tell"


# %% 02.2: let the two
def race_of(eager, compiled):
    a, b = (sorted(side() for _ in range(1000))[500] for side in (eager, compiled))
    return "faster" if a > 1.02 * b else "slower" if b > 1.02 * a else "cannot tell"


# %% 02.2: each go first in half of them
def race_of(eager, compiled):
    for _ in range(500):
        eager(), compiled()
    wins = sum(eager() > compiled() for _ in range(30))
    return "faster" if wins >= 22 else "slower" if wins <= 8 else "cannot tell"
