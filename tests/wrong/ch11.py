# Wrong answers to the exercises of notebook 11, each with what it must be told.


# %% 11.1: trips(3): the machine counts 2 trips
def trips(n):
    def run(x):
        for _ in range(n):  # longer chains: they are still one kernel
            x = torch.relu(x) * 0.9
        return x

    return run


# %% 11.1: trips(2): nothing is computed
def trips(n):
    return lambda x: x.t()  # a view


# %% 11.2: a library is still called, by
def lean(x, gain):
    h = torch.relu(x) * gain
    return (h - h.sort(dim=-1).values[:, -1:]).exp()


# %% 11.2: these are not the numbers of scores
def lean(x, gain):
    h = torch.relu(x) * gain
    return (h - h.amax(0, keepdim=True)).exp()  # of each column


# %% 11.2: there is a graph break now
def lean(x, gain):
    h = torch.relu(x) * gain
    torch._dynamo.graph_break()
    return (h - h.amax(-1, keepdim=True)).exp()


# %% 11.3: graph break
def whole_step(p, grad, m):
    if grad.abs().max() > 1:  # no .item(), and Python asks all the same
        grad = grad.clamp(-1, 1)
    m.mul_(0.9).add_(grad)
    p.sub_(0.1 * m)
    return p, m


# %% 11.3: large gradients: m is not what
def whole_step(p, grad, m):
    m.mul_(0.9).add_(grad)  # the branch is gone, and the clamp with it
    p.sub_(0.1 * m)
    return p, m


# %% 11.3: it changed grad itself
def whole_step(p, grad, m):
    grad.clamp_(-1, 1)
    m.mul_(0.9).add_(grad)
    p.sub_(0.1 * m)
    return p, m
