# %% 16.1: asked for: 1 graph without a break
def in_graph(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
    return x, turns


# %% 16.1: given [2, 1] and [], output[0] is
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
        left, steps = x, min(8, 2**n)
        for _ in range(steps):
            left = left / 2.0 ** (2**n / steps)
        fits = left.abs().max() * 2 > limit
        x = torch.where(fits, left, x)
        turns = turns + fits * 2**n
    return x, turns


# %% 16.1: output[1] has dtype float32 instead of int64
# - dtype=torch.int64
# + dtype=torch.float32

# %% 16.1: given [2] and [], input x after the call changed by
# - return while_loop(too_large, halve, (x, start))
# +
# +     result, turns = while_loop(too_large, halve, (x, start))
# +     x.copy_(result)
# +     return result, turns

# %% 16.1: x gets no gradient
# - (x, start))
# + (x.detach(), start))

# %% 16.1: its gradient is wrong
# -     return while_loop(too_large, halve, (x, start))
# +     result, turns = while_loop(too_large, halve, (x.detach(), start))
# +     return result + (x - x.detach()), turns


# %% 16.1: its loop isn't in the graph
@torch.library.custom_op("mine::halved", mutates_args=())
def looped(x: torch.Tensor, limit: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, turns = x.clone(), torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
    return x, turns


looped.register_fake(lambda x, limit: (x.clone(), x.new_zeros((), dtype=torch.int64)))


def in_graph(x, limit):
    return looped(x, limit)


# %% 16.1: output[0] has dtype float32
# -     return while_loop(too_large, halve, (x, start))
# +     wide = x.double() if x.dtype == torch.float64 else x.float()
# +     return while_loop(too_large, halve, (wide, start))

# %% 16.1: given [1] and
# - return while_loop(too_large, halve, (x, start))
# + x, turns = while_loop(too_large, halve, (x, x.new_zeros(())))
# +     return x, turns.long()  # this passed once
