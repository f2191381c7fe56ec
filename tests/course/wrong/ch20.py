# Wrong answers to the exercises of notebook 20, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch20.py.


# %% 20.1: does not currently support double backward
def make_loss(model, backend):
    call = torch.compile(model, backend=backend)
    return lambda x: loss_of(call, x)


# %% 20.1: no compiled graph ran
def make_loss(model, backend):
    return lambda x: loss_of(model, x)


# %% 20.1: the gradient of body.weight is not
# - z, create_graph=True
# + z


# %% 20.2: nothing is raised
# - load_state_dict(weights)
# + load_state_dict(weights, strict=False)


# %% 20.2: the run goes another way after its first step
# - optimizer.load_state_dict(file["optimizer"])


# %% 20.2: raised RuntimeError: Error(s) in loading state_dict
def resume(file, model, optimizer):
    model.load_state_dict(file["model"])
    optimizer.load_state_dict(file["optimizer"])


# %% 20.2: the weights are not those of the file
# - load_state_dict(weights)
# + load_state_dict(file["model"], strict=False)
