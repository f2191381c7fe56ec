# %% 17.1: sin(x) of torch.bfloat16: 4 scales cost 4 graphs, and one is enough
# -         self.raw, self.scale = raw, torch.as_tensor(scale, dtype=torch.float64)
# +         self.raw, self.scale = raw, scale
# -         return ["raw", "scale"], None
# +         return ["raw"], {"scale": self.scale}
# -         return Free(inner["raw"], inner["scale"])
# +         return Free(inner["raw"], rest["scale"])

# %% 17.1: Free(raw, scale) makes a Tensor, and no Free
class Free(torch.Tensor):
    @staticmethod
    def __new__(cls, raw, scale):
        return raw * scale


# %% 17.1: raised RecursionError
# -         dense = pytree.tree_map_only(cls, lambda t: t.raw * t.scale, args)
# +         dense = [a.raw * a.scale if isinstance(a, cls) else a for a in args]

# %% 17.1: another dtype by keyword of torch.bfloat16, eager: not the plain
# -         return op(*dense, **(kwargs or {}))
# +         return op(*dense)

# %% 17.1: sin(x) of torch.bfloat16, eager: not the plain result of raw * 1.0
# -         self.raw, self.scale = raw, torch.as_tensor(scale, dtype=torch.float64)
# +         self.raw, Free.scale = raw, torch.as_tensor(scale)

# %% 17.1: of torch.float64, eager: not the plain result of raw * -0.1
# - torch.as_tensor(scale, dtype=torch.float64)
# + torch.as_tensor(scale)

# %% 17.1: x.float() of torch.bfloat16, eager: not the plain result of raw * 1.0
# - cls, raw.shape, **like)
# + cls, raw.shape)

# %% 17.1: isn't on the device of raw
# -             "device": raw.device,
# +

# %% 17.1: view size is not compatible
# -             "strides": raw.stride(),
# +

# %% 17.1: of torch.bfloat16, eager: not the plain result of raw * -0.1
# - torch.as_tensor(scale, dtype=torch.float64)
# + torch.as_tensor(scale, dtype=raw.dtype)

# %% 17.1: x + Free(raw, 3.0) of torch.bfloat16, eager: not the plain result
# - dense = pytree.tree_map_only(cls, lambda t: t.raw * t.scale, args)
# + scale = next(t.scale for t in pytree.tree_leaves(args) if type(t) is cls)
# +         dense = pytree.tree_map_only(cls, lambda t: t.raw * scale, args)
