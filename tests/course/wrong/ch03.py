# %% 03.1: one that runs eagerly from its one break on passes your gate
# - compiled,graphs=2,
# +

# %% 03.1: one with a second break, and nothing compiled behind it passes
# - ,breaks=1
# +

# %% 03.1: one that goes stale passes your gate
# - ,stale=0
# +

# %% 03.1: one that is fast and wrong passes your gate
# - matches,

# %% 03.1: a good model after an upgrade is stopped by speedup>=0.3
# - stale=0
# + stale=0,speedup>=0.3

# %% 03.1: a good model is stopped by graphs=1
# - graphs=2
# + graphs=1

# %% 03.1: a good model after an upgrade is stopped by recompiles<=100
# - later_recompiles=0
# + recompiles<=100

# %% 03.1: a good model with fewer kernels is stopped by kernels>0
# - compiled
# + kernels>0

# %% 03.2: a tensor that is no buffer stays where it is
# -         self.register_buffer("calls", torch.tensor(0), persistent=False)
# +         self.calls = torch.tensor(0)

# %% 03.2: compiled, given [6, 4]
# -         self.calls = self.calls + 1
# +         if torch.compiler.is_compiling():
# +             return x
# +         self.calls = self.calls + 1

# %% 03.2: 5 calls cost
# -         self.register_buffer("calls", torch.tensor(0), persistent=False)
# +         self.calls = 0

# %% 03.2: given [6, 4]
# - x.detach().abs().max()
# + x.abs().max()

# %% 03.2: asked for: 1 graph without a break
# -         largest = x.detach().abs().max()
# +         largest = torch.tensor(x.detach().abs().max().item())

# %% 03.2: the state_dict has calls
# - torch.tensor(0), persistent=False
# + torch.tensor(0)

# %% 03.2: as bfloat16, it has counted to 256 after 300 calls
# - torch.tensor(0)
# + torch.tensor(0.0)

# %% 03.2: what the module keeps requires a gradient
# -         largest = x.detach().abs().max()
# +         largest = x.abs().max()
# -         return x / self.largest * self.calls
# +         return x / self.largest.detach() * self.calls

# %% 03.2: it writes in place what a compiled backward may read
# - self.calls = self.calls + 1
# + self.calls += 1

# %% 03.2: given [6, 4]
# - torch.fmax
# + torch.maximum

# %% 03.2: writes in place
# - self.calls = self.calls + 1
# + self.calls.data = self.calls + 1

# %% 03.2: instead of
# - x.detach().abs().max()
# + x.detach().abs().nan_to_num(0.0).max()

# %% 03.2: it writes in place what a compiled backward may read
# - self.largest = torch.fmax(self.largest, largest)
# + self.largest.copy_(torch.fmax(self.largest, largest))  # this passed once

# %% 03.2: given [6, 4]
# - torch.fmax(self.largest, largest)
# + torch.fmax(self.largest.to(x), largest)  # this passed once

# %% 03.2: given [6, 4]
# - x / self.largest
# + x / (self.largest + 1e-8)  # this passed once

# %% 03.2: as bfloat16, it rounds the largest number
# - x.detach().abs().max()
# + x.detach().abs().max().to(self.largest)  # this passed once
