# %% 07.1: 3 launches, and at most 2 asked for
# - h = (x @ weight) * torch.rsqrt(size + 1e-6)  # a row's factor may wait
# + h = (x * torch.rsqrt(size + 1e-6)) @ weight

# %% 07.1: given [3, 8] and [8, 8], output is
# - torch.rsqrt(size + 1e-6)  # a row's factor may wait
# + torch.rsqrt(size)

# %% 07.1: given [64, 256] and [256, 256], output is
# - mean(-1, keepdim=True)
# + mean()

# %% 07.1: asked for: 1 graph without a break
# - h = (x @ weight)
# + torch._dynamo.graph_break()
# +     h = (x @ weight)

# %% 07.1: given [64, 256] and [256, 256], gradient of input x is
# - torch.rsqrt(size + 1e-6)  # a row's factor may wait
# + torch.rsqrt(size + 1e-6).detach()

# %% 07.1: compiled, given [64, 256] and [256, 256], output is
# - gelu(h)
# + gelu(h) * (1 + torch.compiler.is_compiling())

# %% 07.1: no library computes the product any more
# - (x @ weight) * torch.rsqrt(size + 1e-6)  # a row's factor may wait
# + ((x * torch.rsqrt(size + 1e-6)).unsqueeze(-1) * weight).sum(1)
