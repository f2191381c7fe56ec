# %% 04.1: for 'nothing': these are the values of x
def fail_guard(kind, x):
    return x


# %% 04.1: for 'stride': stride alone should differ, and no guard fails
# - x.t().contiguous().t(),  # by columns, same sizes
# + x.clone().contiguous(),


# %% 04.1: for 'requires_grad': requires_grad alone should differ
# - x.clone().requires_grad_(),
# + torch.nn.Parameter(x.clone()),  # another class


# %% 04.2: IndexError: list index out of range
# - torch.compiler.reset()  # nothing guards a first hook


# %% 04.2: that isn't the layer's output in a call of compiled
# -     torch.compiler.reset()  # nothing guards a first hook
# -     try:
# -         compiled(x)
# +     compiled(x)
# +     try:
# +         model(x)  # heard in eager, after a compiled call


# %% 04.2: a hook is left
# -         handle.remove()  # this is guarded: the next call compiles again
# +         pass
