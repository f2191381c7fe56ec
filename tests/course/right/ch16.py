# Other right answers to the exercises of notebook 16.


# %% 16.1: the number of turns is computed, then one division
def in_graph(x, limit):
    from torch._higher_order_ops import while_loop

    largest = x.abs().max()
    start = torch.zeros((), dtype=torch.int64)
    turns, _ = while_loop(
        lambda turns, rest: rest > limit,
        lambda turns, rest: (turns + 1, rest / 2),
        (start, largest),
    )
    return x / 2.0**turns, turns


# %% 16.2: padded, in place of index_add_
def pairs(x):
    padded = torch.nn.functional.pad(x, (0, 0, 0, x.shape[0] % 2))
    if isinstance(x.shape[0], int):
        return padded.view(-1, 2, x.shape[1]).sum(1)
    return torch.stack([padded[::2], padded[1::2]]).sum(0)


# %% 16.2: unflatten is a view
def pairs(x):
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if statically_known_true(x.shape[0] % 2 == 0):
        return x.unflatten(0, (-1, 2)).sum(1)
    sums = x[::2].clone()
    odd = x[1::2]
    sums[: odd.shape[0]] += odd
    return sums


# %% 16.3: with arithmetic in place of torch.where
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    keep = keep * (1 - second)
    return fade * keep, keep * added + new, (first + second).clamp(max=1)
