# Answers to the exercises of notebook 16. Try first: a hint costs nothing.


# %% 16.1
def in_graph(x, limit):
    """Return what halved returns; limit is a tensor without dimensions."""
    from torch._higher_order_ops import while_loop

    def too_large(x, turns):
        return x.abs().max() > limit

    def halve(x, turns):
        return x / 2, turns + 1

    start = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(too_large, halve, (x, start))


# %% 16.2
def pairs(x):
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    rows, width = x.shape
    if statically_known_true(rows % 2 == 0):
        return x.view(-1, 2, width).sum(1)
    pair = torch.arange(rows, device=x.device) // 2
    return x.new_zeros((rows + 1) // 2, width).index_add_(0, pair, x)


# %% 16.3
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    state = torch.where(second > 0, new, keep * added + new)
    return fade * keep, state, torch.maximum(first, second)
