# %% 26.1: Guard failed
# - , dynamic_shapes=(both, both)

# %% 26.1: Constraints violated
# - torch.randn(2, 6, 8), torch.ones(2, 6)
# + torch.randn(1, 6, 8), torch.ones(1, 6)

# %% 26.1: given [4, 9, 8] and [4, 9], output
# -     return export(model, (x, mask), dynamic_shapes=(both, both))
# +     class Mean(torch.nn.Module):
# +         def forward(self, x, mask):
# +             return x.mean(1)
# +
# +     return export(Mean(), (x, mask), dynamic_shapes=(both, both))

# %% 26.1: a size may be 4096 at most
# - Dim("batch")
# + Dim("batch", max=4096)

# %% 26.1: return what export() gives you
def export_it(model):
    import types

    return types.SimpleNamespace(module=lambda: model)


# %% 26.2: it can't be exported. Could not guard on data-dependent
# - torch.where(top > level, top, 0.9 * level + 0.1 * top)
# + top if top > level else 0.9 * level + 0.1 * top

# %% 26.2: at input 2, the file's level is wrong
# - x.abs().max()
# + x.max()

# %% 26.2: the answer to input 1 is wrong
# - return x / new, new
# + return x / level, new

# %% 26.2: the file's level is wrong
# - torch.where(top > level, top, 0.9 * level + 0.1 * top)
# + (top > level) * top + (top < level) * (0.9 * level + 0.1 * top)

# %% 26.2: it keeps something in self
# -         return x / new, new
# +         self.last = new
# +         return x / new, new

# %% 26.2: it writes into an input or a buffer
# - return x / new, new
# + level.copy_(new)
# +         return x / level, level

# %% 26.2: torch.onnx can't store it: Required parameter 'dim'
# - x.abs().max()
# + x.abs().amax()

# %% 26.2: at input 5, the file's level is wrong
# - torch.where(top > level
# + torch.where(x.abs().mean() > level

# %% 26.2: two results were asked for
# - return x / new, new
# + return {"result": x / new, "level": new}

# %% 26.2: it has a buffer
# -     def forward(self, x, level):
# +     def __init__(self):
# +         super().__init__()
# +         self.register_buffer("level", torch.ones(()))
# +
# +     def forward(self, x, level):
