# %% 21.1: called within autocast of float16, 1 graph ran, and 2 captured
# - with torch.autocast("cpu", enabled=False):
# + if True:  # whatever autocast it is called in

# %% 21.1: a log_softmax in float32
# - nll(logits.float(), y)
# + nll(logits, y).float()

# %% 21.1: called bare, the loss has no gradient
# -         with torch.autocast("cpu", enabled=False):
# +         with torch.autocast("cpu", enabled=False), torch.no_grad():

# %% 21.1: with a gradient in float32
# - nll(logits.float(), y)
# + nll(logits.float(), y) + (logits - logits.detach()).sum()

# %% 21.1: nll is not in the graph
# -     def inner(x, y):
# +     net = torch.compile(model, backend=backend, fullgraph=True)
# +     def inner(x, y):
# - logits = model(x)
# + logits = net(x)
# - torch.compile(inner, backend=backend, fullgraph=True)
# + inner

# %% 21.1: called within autocast of float16, the caller's autocast is changed
# -         with torch.autocast("cpu", enabled=False):
# -             return compiled(x, y)
# +         torch.set_autocast_enabled("cpu", False)
# +         return compiled(x, y)

# %% 21.1: called within autocast of float16, the loss is
# -     def loss(x, y):
# +     first = []
# +
# +     def loss(x, y):
# +         first[:] = first or [x, y]
# - return compiled(x, y)
# + return compiled(*first)

# %% 21.1: called bare, the loss is
# -         with torch.autocast("cpu", torch.bfloat16):
# -             logits = model(x)
# +         low = {n: p.bfloat16() for n, p in model.named_parameters()}
# +         logits = torch.func.functional_call(model, low, x.bfloat16())

# %% 21.1: after a call that raises, the caller's autocast is changed
# -         with torch.autocast("cpu", enabled=False):
# -             return compiled(x, y)
# +         before = torch.is_autocast_enabled("cpu")
# +         torch.set_autocast_enabled("cpu", False)
# +         result = compiled(x, y)
# +         torch.set_autocast_enabled("cpu", before)
# +         return result

# %% 21.1: it leaves autocast's cache as False behind
# - with torch.autocast("cpu", enabled=False):
# + torch.set_autocast_cache_enabled(False)  # this passed once
# +         with torch.autocast("cpu", enabled=False):
