# %% 17.1: the two are multiplied when it is made
# - self.raw, self.scale = raw, torch.as_tensor(scale, dtype=torch.float64)
# + self.dense = raw * scale
# - ["raw", "scale"]
# + ["dense"]
# - Free(inner["raw"], inner["scale"])
# + Free(inner["dense"], 1.0)
# - lambda t: t.raw * t.scale
# + lambda t: t.dense

# %% 17.1: a copy of the scale
# - dtype=torch.float64)
# + dtype=torch.float64).clone()
