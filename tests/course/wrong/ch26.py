# Wrong answers to the exercises of notebook 26, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch26.py.


# %% 26.1: Guard failed
# - , dynamic_shapes=(both, both)


# %% 26.1: Guard failed
# - {0: Dim("batch"), 1: Dim("length")}
# + {0: Dim("batch")}


# %% 26.1: Constraints violated
# - torch.randn(2, 6, 8), torch.ones(2, 6)
# + torch.randn(1, 6, 8), torch.ones(1, 6)


# %% 26.1: it returns Eager, and no exported program
class Eager:
    def __init__(self, model):
        self.model = model

    def module(self):
        return self.model


def export_it(model):
    return Eager(model)


# %% 26.1: Guard failed
# - Dim("batch")
# + Dim("batch", max=4)


# %% 26.1: Guard failed
# - Dim("length")
# + Dim("length", max=8)


# %% 26.1: Guard failed: x.size()[0] <= 64
# - Dim("batch")
# + Dim("batch", max=64)


# %% 26.1: a batch of 4, length 9: another answer
# -     return export(model, (x, mask), dynamic_shapes=(both, both))
# +     class Mean(torch.nn.Module):
# +         def forward(self, x, mask):
# +             return x.mean(1)
# +
# +     return export(Mean(), (x, mask), dynamic_shapes=(both, both))


# %% 26.2: it cannot be exported. Could not guard on data-dependent
# - torch.where(top > level, top, 0.9 * level + 0.1 * top)
# + top if top > level else 0.9 * level + 0.1 * top


# %% 26.2: the file has another level
class Portable(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("own", torch.ones(()))

    def forward(self, x, level):
        top = x.abs().max()
        new = torch.where(top > self.own, top, 0.9 * self.own + 0.1 * top)
        self.own.copy_(new)
        return x / new, new + 0 * level


# %% 26.2: the file has another level
class Portable(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.own = 1.0

    def forward(self, x, level):
        top = x.abs().max()
        self.own = 0.9 * self.own
        return x / (self.own + 0.1 * top), self.own + 0.1 * top + 0 * level


# %% 26.2: the file has another level
# - return x / new, new
# + return new, x / new


# %% 26.2: after 1 inputs, the file has another level
# - return x / new, new
# + return x / new, level


# %% 26.2: after 2 inputs, the file has another level
# - x.abs().max()
# + x.max()
