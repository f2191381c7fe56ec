# Wrong answers to the exercises of notebook 02, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch02.py.


# %% 02.1: still working
# -         launch()
# -         wait()
# +         launch()


# %% 02.1: the first call
def seconds_per_call(launch, wait, now):
    begin = now()
    for _ in range(21):
        launch()
        wait()
    return (now() - begin) / 21


# %% 02.1: interrupted
# - statistics.median(times)
# + sum(times) / len(times)


# %% 02.1: call is not the typical one
def seconds_per_call(launch, wait, now):
    times = []
    for _ in range(21):
        begin = now()
        launch()
        wait()
        times.append(now() - begin)
    return min(times)


# %% 02.2: take turns
def race_of(eager, compiled):
    from statistics import median

    a = median(eager() for _ in range(30))
    b = median(compiled() for _ in range(30))
    if a > 1.05 * b:
        return "faster"
    return "slower" if b > 1.05 * a else "cannot tell"


# %% 02.2: always comes out ahead
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


# %% 02.2: a mean of ratios follows the few long calls
def race_of(eager, compiled):
    from statistics import mean, stdev

    ratios = [eager() / compiled() for _ in range(30)]
    error = stdev(ratios) / len(ratios) ** 0.5
    if mean(ratios) > 1.03:
        return "faster"
    return "slower" if mean(ratios) + error < 0.98 else "cannot tell"


# %% 02.2: let the two sides take turns
def race_of(eager, compiled):
    a = sorted(eager() for _ in range(30))
    b = sorted(compiled() for _ in range(30))
    if a[5] > b[-6]:
        return "faster"
    return "slower" if a[-6] < b[5] else "cannot tell"


# %% 02.2: not by how much
def race_of(eager, compiled):
    from statistics import median

    ratio = median(eager() / compiled() for _ in range(30))
    if ratio > 1.1:
        return "faster"
    return "slower" if ratio < 1 / 1.1 else "cannot tell"


# %% 02.1: still working
def seconds_per_call(launch, wait, now):
    launch()
    wait()
    begin = now()
    for _ in range(20):
        launch()  # twenty at once, and none is waited for
    return (now() - begin) / 20


# %% 02.1: 1 calls cannot tell what is typical
def seconds_per_call(launch, wait, now):
    begin = now()
    launch()
    wait()
    return now() - begin


# %% 02.2: such a difference can be told
def race_of(eager, compiled):
    wins = sum(eager() > compiled() for _ in range(30))
    return "faster" if wins >= 24 else "cannot tell"  # never "slower"


# %% 02.2: such a difference can be told
def race_of(eager, compiled):
    return "cannot tell"  # the careful answer


# %% 02.2: which side goes first in a turn should change
# - if turn % 2:
# + if True:
