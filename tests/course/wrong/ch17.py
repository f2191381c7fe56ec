# Wrong answers to the exercises of notebook 17, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch17.py.


# %% 17.1: sin(x) + 1: 4 scales cost 4 graphs, and one is enough
# -         self.raw, self.scale = raw, torch.as_tensor(scale)
# +         self.raw, self.scale = raw, scale
# -         return ["raw", "scale"], None
# +         return ["raw"], {"scale": self.scale}
# -         return Free(inner["raw"], inner["scale"])
# +         return Free(inner["raw"], rest["scale"])


# %% 17.1: eager, with a scale of 2.0: not that of raw * scale
# -         dense = pytree.tree_map_only(cls, lambda t: t.raw * t.scale, args)
# +         dense = pytree.tree_map_only(cls, lambda t: t.raw, args)


# %% 17.1: gives a Free, not a plain tensor
# -         return op(*dense, **(kwargs or {}))
# +         return cls(op(*dense, **(kwargs or {})), 1.0)


# %% 17.2: the mean: 8 lists cost
# -         values = torch.cat(texts)
# -         lengths = [0, *map(len, texts)]
# -         ends = torch.tensor(lengths, device=values.device).cumsum(0)
# -         return compiled(torch.nested.nested_tensor_from_jagged(values, ends))
# +         return compiled(torch.nested.nested_tensor(texts, layout=torch.jagged))


# %% 17.2: the mean: texts with [2, 3] rows ran eagerly
# -         return compiled(torch.nested.nested_tensor_from_jagged(values, ends))
# +         return work(torch.nested.nested_tensor_from_jagged(values, ends))


# %% 17.2: the mean: 8 lists cost 8 graphs
# -     compiled = torch.compile(work, backend=backend)
# -

# -         return compiled(torch.nested.nested_tensor_from_jagged(values, ends))
# +         compiled = torch.compile(lambda batch: work(batch), backend=backend)
# +         torch.compiler.reset()
# +         return compiled(torch.nested.nested_tensor_from_jagged(values, ends))


# %% 17.2: the mean of texts with [2, 3] rows is another one
# -         values = torch.cat(texts)
# +         longest = max(map(len, texts))
# +         texts = [torch.cat([t, t.new_ones(longest - len(t), 4)]) for t in texts]
# +         values = torch.cat(texts)


# %% 17.1: Free(raw, scale) makes a Tensor, and no Free
class Free(torch.Tensor):
    @staticmethod
    def __new__(cls, raw, scale):
        return raw * scale


# %% 17.2: the mean: work ran 2 times for 2 texts: it takes one jagged tensor of all
# -         values = torch.cat(texts)
# -         lengths = [0, *map(len, texts)]
# -         ends = torch.tensor(lengths, device=values.device).cumsum(0)
# -         return compiled(torch.nested.nested_tensor_from_jagged(values, ends))
# +         return torch.cat(
# +             [
# +                 compiled(
# +                     torch.nested.nested_tensor_from_jagged(
# +                         text, torch.tensor([0, len(text)])
# +                     )
# +                 )
# +                 for text in texts
# +             ]
# +         )


# %% 17.1: torch.cat of a list with x, eager: a Free is left inside
# -         dense = pytree.tree_map_only(cls, lambda t: t.raw * t.scale, args)
# +         dense = [a.raw * a.scale if isinstance(a, cls) else a for a in args]


# %% 17.1: another dtype by keyword, eager: float32, and raw * scale gives float64
# -         return op(*dense, **(kwargs or {}))
# +         return op(*dense)
