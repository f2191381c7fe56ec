# Wrong answers to the exercises of notebook 21, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch21.py.


# %% 21.1: you say "eager", it is "compiled"
# - program(x.double())
# + program(x).double()


# %% 21.1: one number far off
# - abs().max()
# + abs().mean()


# %% 21.1: one number far off
# - .abs().max()
# + .max()


# %% 21.1: one number far off
# - abs().max()
# + square().mean()


# %% 21.1: one small number off
# - (r.double() - truth).abs()
# + (r.double() / truth - 1).abs()


# %% 21.1: one distance shorter by a fifth
# - 0.1 * max(e, c)
# + 0.3 * max(e, c)


# %% 21.1: two distances, nearly the same
# - if e == c or abs(e - c) < 0.1 * max(e, c):
# + if e == c:


# %% 21.1: two distances, nearly the same
# - program(x.double())
# + program(x.float()).double()


# %% 21.1: in float16
# -     verdicts = {}
# +     x, verdicts = x.bfloat16(), {}
# -         results = program(x), torch.compile(program)(x)
# +         results = (f(x) for f in (program, torch.compile(program)))


# %% 21.2: called within autocast of float16, it is at 2 graphs
# - with torch.autocast("cpu", enabled=False):
# + if True:  # whatever autocast it is called in


# %% 21.2: a log_softmax in float32
# - nll(logits.float(), y)
# + nll(logits, y).float()


# %% 21.2: no longer float32
# -     def inner(x, y):
# -         with torch.autocast("cpu", torch.bfloat16):
# -             logits = model(x)
# +     model.to(torch.bfloat16)
# +     def inner(x, y):
# +         logits = model(x.bfloat16())


# %% 21.2: the loss has no gradient
# -         with torch.autocast("cpu", enabled=False):
# +         with torch.autocast("cpu", enabled=False), torch.no_grad():


# %% 21.2: the gradient of the weights is another
# - nll(logits.float(), y)
# + nll(logits.float(), y) + (logits - logits.detach()).sum()


# %% 21.2: nll is not in the graph
# -     def inner(x, y):
# +     net = torch.compile(model, backend=backend, fullgraph=True)
# +     def inner(x, y):
# - logits = model(x)
# + logits = net(x)
# - torch.compile(inner, backend=backend, fullgraph=True)
# + inner


# %% 21.2: the model is not in the graph
# -     def inner(x, y):
# +     ours = torch.compile(nll, backend=backend, fullgraph=True)
# +     def inner(x, y):
# - return nll(logits.float(), y)
# + return ours(logits.float(), y)
# - torch.compile(inner, backend=backend, fullgraph=True)
# + inner


# %% 21.1: one multiplication
# - torch.compile(program)(x)
# + torch.compile(program)(x.float())


# %% 21.1: two neighbours of the truth
# - (r.double() - truth)
# + (r - truth.to(r.dtype))


# %% 21.2: a log_softmax in float32
# -         with torch.autocast("cpu", torch.bfloat16):
# -             logits = model(x)
# +         logits = model(x)


# %% 21.2: a log_softmax in float32
# - with torch.autocast("cpu", torch.bfloat16)
# + with torch.autocast("cpu", torch.float16)
