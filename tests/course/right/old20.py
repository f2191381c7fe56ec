# Other right answers to the exercises of notebook 20.


# %% 20.1: the whole loss in one graph, with the inner gradient by torch.func
def make_loss(model, backend):
    @torch.compile(backend=backend, fullgraph=True)
    def loss(x):
        slope = torch.func.grad(lambda z: model(z).sum())(x)
        return model(x).square().mean() + slope.square().sum(1).mean()

    return loss


# %% 20.1: the penalty apart, by the plain model
def make_loss(model, backend):
    call = torch.compile(model, backend=backend)

    def loss(x):
        z = x.detach().requires_grad_()
        total = model(z).sum()
        [slope] = torch.autograd.grad(total, z, create_graph=True)
        return call(x).square().mean() + slope.square().sum(1).mean()

    return loss


# %% 20.1: apart, with one forward for both terms left to the compiled model
def make_loss(model, backend):
    model_compiled = torch.compile(model, backend=backend, fullgraph=True)

    def loss(x):
        first = model_compiled(x.detach()).square().mean()
        leaf = x.detach().requires_grad_()
        [slope] = torch.autograd.grad(model(leaf).sum(), leaf, create_graph=True)
        return first + slope.square().sum(1).mean()

    return loss


# %% 20.2: the keys of the model decide
def resume(file, model, optimizer):
    plain = [name.replace("_orig_mod.", "") for name in file["model"]]
    known = {name.replace("_orig_mod.", ""): name for name in model.state_dict()}
    weights = {
        known.get(name, name): value
        for name, value in zip(plain, file["model"].values(), strict=True)
    }
    model.load_state_dict(weights, strict=True)
    optimizer.load_state_dict(file["optimizer"])
    torch.set_rng_state(file["random"])
