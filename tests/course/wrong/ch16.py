# Wrong answers to the exercises of notebook 16, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch16.py.


# %% 16.1: one graph was asked for
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
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
