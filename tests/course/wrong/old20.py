# Wrong answers to the exercises of notebook 20, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old20.py.


# %% 20.1: does not currently support double backward
def make_loss(model, backend):
    call = torch.compile(model, backend=backend)
    return lambda x: loss_of(call, x)


# %% 20.1: no compiled graph ran
def make_loss(model, backend):
    return lambda x: loss_of(model, x)


# %% 20.1: the gradient of body.weight is not
# - slope.square()
# + slope.detach().square()


# %% 20.1: does not hold the model's forward
def make_loss(model, backend):
    nothing = torch.compile(lambda loss: loss + 0, backend=backend)
    return lambda x: nothing(loss_of(model, x))


# %% 20.1: does not hold the model's forward
def make_loss(model, backend):
    square = torch.compile(lambda scores: scores.square().mean(), backend=backend)

    def loss(x):
        leaf = x.detach().requires_grad_()
        [slope] = torch.autograd.grad(model(leaf).sum(), leaf, create_graph=True)
        return square(model(x)) + slope.square().sum(1).mean()

    return loss


# %% 20.1: what compiled code computes is not used
def make_loss(model, backend):
    call = torch.compile(model, backend=backend)

    def loss(x):
        call(x)
        return loss_of(model, x)

    return loss


# %% 20.1: no compiled graph ran
def make_loss(model, backend):
    call = torch.compile(model)

    def loss(x):
        leaf = x.detach().requires_grad_()
        [slope] = torch.autograd.grad(model(leaf).sum(), leaf, create_graph=True)
        return call(x).square().mean() + slope.square().sum(1).mean()

    return loss


# %% 20.1: 2 graphs were compiled
def make_loss(model, backend):
    call = torch.compile(loss_of, backend=backend)
    within = torch._dynamo.config.patch(trace_autograd_ops=True)
    return within(lambda x: call(model, x))


# %% 20.1: trace_autograd_ops
# -     @torch._dynamo.config.patch(trace_autograd_ops=True)


# %% 20.2: nothing is raised
# - load_state_dict(weights)
# + load_state_dict(weights, strict=False)


# %% 20.2: the run goes another way after its first step
# - optimizer.load_state_dict(file["optimizer"])


# %% 20.2: the run goes another way after its first step
# - optimizer.load_state_dict(file["optimizer"])
# + optimizer.load_state_dict({**file["optimizer"], "state": {}})


# %% 20.2: the random numbers do not go on
# - torch.set_rng_state(file["random"])


# %% 20.2: the random numbers do not go on
# - torch.set_rng_state(file["random"])
# + torch.manual_seed(0)


# %% 20.2: raised RuntimeError: Error(s) in loading state_dict
def resume(file, model, optimizer):
    model.load_state_dict(file["model"])
    optimizer.load_state_dict(file["optimizer"])
    torch.set_rng_state(file["random"])


# %% 20.2: the weights are not those of the file
# - load_state_dict(weights)
# + load_state_dict(file["model"], strict=False)


# %% 20.2: missing, and another too many, in the file, nothing is raised
# - load_state_dict(weights)
# + load_state_dict(weights, strict=len(weights) != len(model.state_dict()))


# %% 20.1: it changes its input
# - x.detach().requires_grad_()
# + x.requires_grad_()
