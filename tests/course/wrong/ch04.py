# Wrong answers to the exercises of notebook 04, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch04.py.


# %% 04.1: for 'nothing': the values are those of x
def fail_guard(kind, x):
    return x


# %% 04.1: for 'size': another guard fails
def fail_guard(kind, x):
    return x + 1 if kind == "nothing" else x[0]


# %% 04.1: for 'stride': another guard fails
# - x.t().contiguous().t(),  # by columns, same sizes
# + x.t(),  # other sizes, too


# %% 04.2: the compiled code has no hook in it
# - torch.compiler.reset()  # nothing guards a first hook


# %% 04.2: none of its graphs ran
# -         compiled(x)
# +         model(x)  # in eager


# %% 04.2: a hook is left on the layer
# -         handle.remove()


# %% 04.1: for 'requires_grad': another guard fails
# - x.clone().requires_grad_(),
# + torch.nn.Parameter(x.clone()),


# %% 04.1: for 'stride': nothing is compiled again
# - x.t().contiguous().t(),  # by columns, same sizes
# + x.clone().contiguous(),


# %% 04.2: what it returned is not the output of that layer
# - return kept[0]
# + return compiled(x)


# %% 04.2: none of its graphs ran
def listen(compiled, model, name, x):
    kept = []
    layer = model.get_submodule(name)
    with layer.register_forward_hook(lambda *call: kept.append(call[-1])):
        torch.compiler.reset()
        torch.compile(model, backend="eager")(x)  # another compiled model
    return kept[0]


# %% 04.2: a hook is left on the layer
def listen(compiled, model, name, x):
    kept = []
    layer = model.get_submodule(name)
    layer.register_forward_hook(lambda *call: kept.append(call[-1]))
    torch.compiler.reset()
    compiled(x)
    return kept[0]


# %% 04.1: for 'dtype': the size is another one, too: dtype alone was asked for
# - x.double()
# + x.double()[1:, :3]


# %% 04.1: for 'requires_grad': the size is another one, too
# - x.clone().requires_grad_(),
# + x[1:].clone().requires_grad_(),


# %% 04.2: a hook of all modules is left
def listen(compiled, model, name, x):
    kept = []
    layer = model.get_submodule(name)

    def keep(module, inputs, output):
        if module is layer:
            kept.append(output)

    torch.nn.modules.module.register_module_forward_hook(keep)
    torch.compiler.reset()
    compiled(x)
    return kept[0]


# %% 04.2: a hook is left on the layer
def listen(compiled, model, name, x):
    kept, layer = [], model.get_submodule(name)
    layer.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
    torch.compiler.reset()
    compiled(x)
    return layer(kept[0])


# %% 04.2: a hook is left on another module of the model
def listen(compiled, model, name, x):
    kept, layer = [], model.get_submodule(name)
    model.register_forward_pre_hook(lambda *call: kept.clear())
    with layer.register_forward_hook(lambda *call: kept.append(call[-1])):
        torch.compiler.reset()
        compiled(x)
    return kept[0]


# %% 04.2: a hook of all modules is left
def listen(compiled, model, name, x):
    kept, layer = [], model.get_submodule(name)

    def keep(module, inputs):
        if module is layer:
            kept.append(inputs[0])

    torch.nn.modules.module.register_module_forward_pre_hook(keep)
    torch.compiler.reset()
    compiled(x)
    return layer(kept[0])
