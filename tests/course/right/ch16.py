# %% 16.1: it asks each element, and multiplies
def in_graph(x, limit):
    from torch._higher_order_ops import while_loop

    return while_loop(
        lambda x, turns: (x.abs() > limit).any(),
        lambda x, turns: (x * 0.5, turns + 1),
        (x, torch.zeros((), dtype=torch.int64)),
    )


# %% 16.1: compiled by the reader
# - def in_graph
# + @torch.compile(fullgraph=True)
# + def in_graph
