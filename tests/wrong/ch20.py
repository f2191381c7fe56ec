# Wrong answers to the exercises of notebook 20, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch20.py.


# %% 20.1: backward() raises
def make_loss(model, backend):
    call = torch.compile(model, backend=backend)
    return lambda x: loss_of(call, x)


# %% 20.1: no compiled graph ran the model
def make_loss(model, backend):
    return lambda x: loss_of(model, x)


# %% 20.1: the gradient of body.weight is not
# - z, create_graph=True
# + z


# %% 20.2: nothing is raised
def resume(file, model, optimizer):
    for prefix, change in (("_orig_mod.", ""), ("", "_orig_mod.")):
        weights = {k.replace(prefix, change, 1): v for k, v in file["model"].items()}
        model.load_state_dict(weights, strict=False)
    model.load_state_dict(file["model"], strict=False)
    optimizer.load_state_dict(file["optimizer"])


# %% 20.2: the run goes another way after its first step
# - optimizer.load_state_dict(file["optimizer"])


# %% 20.2: from a compiled model into a plain one, it raises
def resume(file, model, optimizer):
    model.load_state_dict(file["model"])
    optimizer.load_state_dict(file["optimizer"])


# %% 20.2: the weights are not those of the file
# - optimizer.load_state_dict(file["optimizer"])
# + optimizer.load_state_dict(file["optimizer"])
# +     next(model.parameters()).data.fill_(float("nan"))
