# %% 26.1: torch decides what may vary
def export_it(model):
    every = (Dim.AUTO, Dim.AUTO)
    inputs = torch.randn(3, 5, 8), torch.ones(3, 5)
    shapes = ((*every, Dim.STATIC), every)
    return torch.export.export(model, inputs, dynamic_shapes=shapes)


# %% 26.2: both branches in the graph
# -         new = torch.where(top > level, top, 0.9 * level + 0.1 * top)
# +         new = torch.cond(
# +             top > level,
# +             lambda top, level: top.clone(),
# +             lambda top, level: 0.9 * level + 0.1 * top,
# +             (top, level),
# +         )
