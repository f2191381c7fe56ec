# Wrong answers to the exercises of notebook 15, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch15.py.


# %% 15.1: one graph was asked for
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
    return x, turns


# %% 15.1: x is not what halved returns
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    for _ in range(100):  # a bound, and a mask
        large = x.abs().max() > limit
        x = torch.where(large, x / 2, x)
        turns = turns + large
    return x, turns


# %% 15.1: for 0 turns, x is not what halved returns
# - zeros
# + ones
# - (x, start)
# + (x / 2, start)


# %% 15.2: the graph has no view
def pairs(x):
    pair = torch.arange(x.shape[0], device=x.device) // 2
    return x.new_zeros((x.shape[0] + 1) // 2, x.shape[1]).index_add_(0, pair, x)


# %% 15.2: Could not guard on data-dependent expression
# - if statically_known_true(rows % 2 == 0):
# + if rows % 2 == 0:


# %% 15.2: dynamic=True, 8, 7 and 6 rows cost 2 compiles
# - import statically_known_true
# + import guard_or_false as statically_known_true


# %% 15.3: pieces joined letter by letter
# - torch.where(second > 0, new, keep * added + new)
# + keep * added + new


# %% 15.3: pieces joined from the end
# - torch.maximum(first, second)
# + second


# %% 15.3: associative_scan cannot capture it
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    if second.max() > 0:
        return keep, new, second
    return fade * keep, keep * added + new, first
