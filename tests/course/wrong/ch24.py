# %% 24.1: 4 requests cost 2 compiles
# - near, early = torch.tensor(window), torch.tensor(first)
# + near, early = window, first

# %% 24.1: it leaves torch._dynamo.config.assume_static_by_default = False
# - near, early = torch.tensor(window), torch.tensor(first)
# + torch._dynamo.config.assume_static_by_default = False
# +     near, early = window, first

# %% 24.1: sees position
# - (i >= j) & ((i - j < near) | (j < early))
# + (i >= j) & (i - j < near) | (j < early)

# %% 24.1: does not see position 0
# - ((i - j < near) | (j < early))
# + (i - j < near)

# %% 24.1: with streaming(100, 4), position
# - def streaming(window: int, first: int):
# -     near, early = torch.tensor(window), torch.tensor(first)
# + near, early = torch.tensor(0), torch.tensor(0)
# +
# +
# + def streaming(window: int, first: int):
# +     near.fill_(window), early.fill_(first)

# %% 24.1: cannot be converted to type int16
# - torch.tensor(window), torch.tensor(first)
# + torch.tensor([window, first], dtype=torch.int16)

# %% 24.1: is out of bounds
# -     near, early = torch.tensor(window), torch.tensor(first)
# +     at = torch.arange(256)  # as long as the examples
# +     back = at[:, None] - at
# +     table = (back >= 0) & ((back < window) | (at < first))
# -         return (i >= j) & ((i - j < near) | (j < early))
# +         return table[i, j]

# %% 24.1: with streaming(99950, 40), position 60000 does not see position 40
# - torch.tensor(window), torch
# + torch.tensor(min(window, 4096)), torch

# %% 24.1: with streaming(41, 1)
# - (i - j < near)
# + ((i - j) * (1 / near) < 1)
