# %% 04.1: for 'nothing': these are the values of x
def fail_guard(kind, x):
    return x


# %% 04.1: for 'stride': stride alone should differ, and no guard fails
# - x.t().contiguous().t(),  # by columns, same sizes
# + x.clone().contiguous(),

# %% 04.1: for 'requires_grad': requires_grad alone should differ
# - x.clone().requires_grad_(),
# + torch.nn.Parameter(x.clone()),  # another class

# %% 04.1: for 'nothing': nothing alone should differ
# - x + 1,
# + torch.zeros(4, 6),

# %% 04.1: for 'requires_grad': x itself was changed
# - x.clone().requires_grad_(),
# + x.requires_grad_(),

# %% 04.2: it kept nothing
# - torch.compiler.reset()  # nothing guards a first hook

# %% 04.2: and your caller gets None
# -     finally:
# +     except RuntimeError:
# +         kept.append(None)
# +     finally:

# %% 04.2: when the call raises, a hook came or went
# -     try:
# -         compiled(x)
# -     finally:
# -         handle.remove()  # this is guarded: the next call compiles again
# +     compiled(x)
# +     handle.remove()


# %% 04.2: a hook came or went
def listen(compiled, model, name, x):
    kept, layer = [], model.get_submodule(name)
    keeping = torch.nn.Identity()
    keeping.forward = lambda x: kept.append(layer(x)) or kept[-1]
    model.set_submodule(name, keeping)
    compiled(x)
    return kept[0]


# %% 04.2: a hook came or went
# - layer.register_forward_hook(lambda *call: kept.append(call[-1]))
# + torch.nn.modules.module.register_module_forward_hook(
# +         lambda *call: kept.append(call[-1]) if call[0] is layer else None
# +     )
# -         handle.remove()  # this is guarded: the next call compiles again
# +         pass

# %% 04.2: that isn't the layer's output in a call of compiled, in one graph
# - lambda *call: kept.append(call[-1])
# + torch.compiler.disable(lambda *call: kept.append(call[-1]))

# %% 04.2: that isn't the layer's output in a call of compiled
# -     torch.compiler.reset()  # nothing guards a first hook
# -     try:
# -         compiled(x)
# +     compiled(x)
# +     try:
# +         kept.append(1 + model[: int(name[0]) + 1](x))  # as the check shifts it

# %% 04.2: 2 graphs ran, and one was asked for
# -     try:
# -         compiled(x)
# +     try:
# +         compiled(x), compiled(x)

# %% 04.2: a hook came or went
# - kept.append(call[-1])
# + setattr(call[0], "heard", kept.append(call[-1]))

# %% 04.2: and your caller gets RuntimeError('the call failed')
# -     finally:
# -         handle.remove()  # this is guarded: the next call compiles again
# +     except Exception:
# +         handle.remove()
# +         raise RuntimeError("the call failed") from None
# +     handle.remove()

# %% 04.2: that isn't the layer's output
# -     layer = model.get_submodule(name)
# -     handle = layer.register_forward_hook(lambda *call: kept.append(call[-1]))
# +     after = [part for at, part in model.named_modules() if at > name][0]
# +     handle = after.register_forward_pre_hook(lambda _, x: kept.append(x[0]))
