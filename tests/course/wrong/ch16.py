# Wrong answers to the exercises of notebook 16, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch16.py.


# %% 16.1: one graph was asked for
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
    return x, turns


# %% 16.1: x is not what halved returns
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    for _ in range(100):  # a bound, and a mask
        large = x.abs().max() > limit
        x = torch.where(large, x / 2, x)
        turns = turns + large
    return x, turns


# %% 16.1: for 1994 turns, x is not what halved returns
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    for _ in range(200):  # enough for most numbers
        large = x.abs().max() > limit
        x = torch.where(large, x / 2, x)
        turns = turns + large
    return x, turns


# %% 16.1: the loop was unrolled, so it has a bound
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    for n in range(11, -1, -1):  # up to 4095 turns, by halves
        left = x
        for _ in range(8):
            left = left / 2.0 ** (2**n / 8)
        fits = left.abs().max() * 2 > limit
        x = torch.where(fits, left, x)
        turns = turns + fits * 2**n
    return x, turns


# %% 16.1: for 2 turns, x is not what halved returns
# - x.abs().max() > limit
# + x.abs().max() >= limit


# %% 16.1: the number of turns is tensor(4.), not tensor(4)
# - dtype=torch.int64
# + dtype=torch.float32


# %% 16.1: for 0 turns, x is not what halved returns
# - zeros
# + ones
# - (x, start)
# + (x / 2, start)


# %% 16.2: the graph has no view
def pairs(x):
    pair = torch.arange(x.shape[0], device=x.device) // 2
    return x.new_zeros((x.shape[0] + 1) // 2, x.shape[1]).index_add_(0, pair, x)


# %% 16.2: Could not guard on data-dependent expression
# - if statically_known_true(rows % 2 == 0):
# + if rows % 2 == 0:


# %% 16.2: dynamic=True, 8, 7 and 6 rows cost 2 compiles
# - import statically_known_true
# + import guard_or_false as statically_known_true


# %% 16.3: pieces joined letter by letter
# - torch.where(second > 0, new, keep * added + new)
# + keep * added + new


# %% 16.3: pieces joined from the end
# - torch.maximum(first, second)
# + second


# %% 16.3: associative_scan cannot capture it
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    if second.max() > 0:
        return keep, new, second
    return fade * keep, keep * added + new, first


# %% 16.2: in eager, these are not the sums of neighbours
def pairs(x):
    rows, width = x.shape
    return x[: rows // 2 * 2].view(-1, 2, width).sum(1)


# %% 16.2: Could not guard on data-dependent expression
# - if statically_known_true(rows % 2 == 0):
# + if isinstance(rows, int) and rows % 2 == 0:


# %% 16.3: pieces joined letter by letter
# - torch.where(second > 0, new, keep * added + new)
# + torch.where(first > 0, added, fade * new + added)


# %% 16.3: pieces joined from the end
# - torch.maximum(first, second)
# + first * second


# %% 16.1: the number of turns is tensor(4, dtype=torch.int32), not tensor(4)
# - dtype=torch.int64
# + dtype=torch.int32


# %% 16.1: the number of turns is tensor([4]), not tensor(4)
# - torch.zeros(()
# + torch.zeros((1,)


# %% 16.2: shape '[-1, 2, 4]' is invalid
# - x.view(-1, 2, width)
# + x.view(-1, 2, 4)


# %% 16.2: must have the same scalar type
# - x.new_zeros((rows + 1) // 2, width)
# + torch.zeros((rows + 1) // 2, width)


# %% 16.2: the graph has index_add, too
def pairs(x):
    rows, width = x.shape
    pair = torch.arange(rows, device=x.device) // 2
    sums = x.new_zeros((rows + 1) // 2, width)
    return sums.index_add_(0, pair, x.view(rows, width))


# %% 16.3: and a tuple of three tensors back
# - return fade * keep, state, torch.maximum(first, second)
# + return torch.stack([fade * keep, state, torch.maximum(first, second)])


# %% 16.1: the loop does not end
# - return x / 2, turns + 1
# + return x.clone(), turns + 1


# %% 16.1: the loop does not end
# - return x.abs().max() > limit
# + return turns >= 0


# %% 16.3: from the end
# - return fade * keep, state, torch.maximum(first, second)
# + return keep, state, first + second - first * second - first


# %% 16.2: Could not guard on data-dependent expression
# - if statically_known_true(rows % 2 == 0):
# + if statically_known_true(rows % 2 == 0) or rows == 8:
