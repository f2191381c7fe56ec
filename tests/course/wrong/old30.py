# Wrong answers to the exercises of notebook 30, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old30.py.


# %% 30.1: and one is enough
# -         low = x @ self.a[which].mT
# +         which = which.tolist()
# +         low = x @ self.a[which].mT


# %% 30.1: a row has another adapter's answer
# -         low = x @ self.a[which].mT
# +         which = which[0]
# +         low = x @ self.a[which].mT


# %% 30.2: the answer is another adapter's
# -     layer.a.zero_()

# -     layer.b.zero_()


# %% 30.2: more times
def swap(layer, a, b, scale):
    if len(a) > 8:
        raise ValueError(len(a))
    layer.a, layer.b = torch.nn.Parameter(a), torch.nn.Parameter(b)
    layer.scale = torch.tensor(scale)


# %% 30.2: no ValueError says so
# -     rank = len(a)
# -     if rank > len(layer.a):
# -         raise ValueError(f"rank {rank} does not fit into {len(layer.a)}")
# +     a, b = a[:8], b[:, :8]
# +     rank = len(a)


# %% 30.1: graphs, and one is enough
# -         low = x @ self.a[which].mT
# -         return self.base(x) + low @ self.b[which].mT
# +         rows = [
# +             self.base(row) + row @ self.a[n].mT @ self.b[n].mT
# +             for row, n in zip(x, which)
# +         ]
# +         return torch.stack(rows)


# %% 30.1: three choices made 0 graphs
# -     def forward(self, x, which):
# +     @torch.compiler.disable
# +     def forward(self, x, which):


# %% 30.2: the answer is another adapter's
# -     layer.scale.fill_(scale)


# %% 30.2: your answer raised ValueError
# -     if rank > len(layer.a):
# +     if rank >= len(layer.a):


# %% 30.1: one graph was asked for
# -         low = x @ self.a[which].mT
# -         return self.base(x) + low @ self.b[which].mT
# +         plain = self.base(x)
# +         return self.adapted(plain, x, which)
# +
# +     @torch.compiler.disable
# +     def adapted(self, plain, x, which):
# +         low = x @ self.a[which].mT
# +         return plain + low @ self.b[which].mT


# %% 30.1: a row has another adapter's answer
# -         pairs = adapters.values()
# +         pairs = [adapters[name] for name in sorted(adapters)]


# %% 30.1: a row has another adapter's answer
# -         low = x @ self.a[which].mT
# -         return self.base(x) + low @ self.b[which].mT
# +         low = torch.einsum("ati,nri->atr", x, self.a)
# +         return self.base(x) + low @ self.b[which].mT


# %% 30.1: has another adapter's answer
# -         return self.base(x) + low @ self.b[which].mT
# +         return self.base(x[:, :1]) + low @ self.b[which].mT


# %% 30.2: the adapter that was given has changed
# -     layer.a.zero_()
# -     layer.a[:rank].copy_(a)
# -     layer.b.zero_()
# -     layer.b[:, :rank].copy_(b)
# +     if rank == len(layer.a):
# +         layer.a.data, layer.b.data = a, b
# +     else:
# +         layer.a.zero_()
# +         layer.a[:rank].copy_(a)
# +         layer.b.zero_()
# +         layer.b[:, :rank].copy_(b)


# %% 30.2: rank 9 was refused, and the layer has changed
# -     if rank > len(layer.a):
# -         raise ValueError(f"rank {rank} does not fit into {len(layer.a)}")
# -     layer.a.zero_()
# +     layer.a.zero_()
# +     if rank > len(layer.a):
# +         raise ValueError(f"rank {rank} does not fit into {len(layer.a)}")


# %% 30.2: your answer raised RuntimeError
# - @torch.no_grad()


# %% 30.2: more times
# -     layer.scale.fill_(scale)
# +     layer.scale.fill_(scale)
# +     layer.a.requires_grad_(False)


# %% 30.2: rank 9 was refused, and the layer has changed
# -     if rank > len(layer.a):
# -         raise ValueError(f"rank {rank} does not fit into {len(layer.a)}")
# +     layer.b[:, -1] = b[:, 7] if rank > 7 else 0
# +     if rank > len(layer.a):
# +         raise ValueError(f"rank {rank} does not fit into {len(layer.a)}")
