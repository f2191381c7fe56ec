# Wrong answers to the exercises of notebook 03, each with what it must be told.


# %% 03.1: for 'nothing' and an x of shape (4, 6): the values are those of x
def fail_guard(kind, x):
    return x


# %% 03.1: for 'size' and an x of shape (4, 6): another guard fails
def fail_guard(kind, x):
    return x + 1 if kind == "nothing" else x[0]


# %% 03.1: for 'stride' and an x of shape (4, 6): another guard fails
def fail_guard(kind, x):
    return {  # a transposed tensor has other sizes, too
        "nothing": x + 1,
        "size": x[1:],
        "rank": x[0],
        "dtype": x.double(),
        "stride": x.t(),
        "requires_grad": x.clone().requires_grad_(),
    }[kind]


# %% 03.2: the compiled code has no hook in it
def listen(compiled, model, name, x):
    kept = []  # nothing makes the compiler look again
    layer = model.get_submodule(name)
    handle = layer.register_forward_hook(lambda *call: kept.append(call[-1]))
    compiled(x)
    handle.remove()
    return kept[0]


# %% 03.2: none of its graphs ran
def listen(compiled, model, name, x):
    kept = []
    layer = model.get_submodule(name)
    handle = layer.register_forward_hook(lambda *call: kept.append(call[-1]))
    model(x)  # in eager
    handle.remove()
    return kept[0]


# %% 03.2: the layer ran in eager
def listen(compiled, model, name, x):
    kept = []
    layer = model.get_submodule(name)
    handle = layer.register_forward_hook(lambda *call: kept.append(call[-1]))
    compiled(x)
    model(x)
    handle.remove()
    return kept[0]


# %% 03.2: a hook is left on the layer
def listen(compiled, model, name, x):
    kept = []
    layer = model.get_submodule(name)
    layer.register_forward_hook(lambda *call: kept.append(call[-1]))
    torch.compiler.reset()
    compiled(x)
    return kept[0]
