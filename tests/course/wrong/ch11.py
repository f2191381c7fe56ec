# Wrong answers to the exercises of notebook 11, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch11.py.


# %% 11.1: trips(3): the machine counts 2 trips
def trips(n):
    def run(x):
        for _ in range(n):  # longer chains: they are still one kernel
            x = torch.relu(x) * 0.9
        return x

    return run


# %% 11.1: trips(2): the machine counts 0 trips
def trips(n):
    return lambda x: x.t()  # a view


# %% 11.1: trips(4) returns more, or less, than one tensor like x
def trips(n):
    return lambda x: tuple(x.sin() + k for k in range(n - 1))


# %% 11.1: trips(4) returns more, or less, than one tensor like x
def trips(n):
    return lambda x: (x * 0.9).repeat(n - 1, 1)  # one tensor, and a larger one


# %% 11.1: trips(2) computes nothing
def trips(n):
    return torch.clone


# %% 11.1: trips(3): the machine counts 4 trips
def trips(n):
    def run(x):
        h = torch.relu(x)
        h = (h + h.mean()).relu()  # a mean, and a border after it
        return h, h * 2

    return (lambda x: torch.relu(x) + 1) if n == 2 else run


# %% 11.1: trips(4) has 1 graph break
# -         return torch.relu(x * 0.9).cumsum(-1)
# +         h = torch.relu(x * 0.9)
# +         torch._dynamo.graph_break()
# +         return torch.relu(h - 0.1)


# %% 11.2: not all of it is compiled
# - def lean(x, gain):
# + @torch.compiler.disable
# + def lean(x, gain):


# %% 11.2: these are not the numbers of scores
# -     h = torch.relu(x) * gain  # what a diagonal matrix does to columns
# +     h = torch.relu(x * gain)  # gain has negative numbers


# %% 11.2: it still moves
# -     h = torch.relu(x) * gain  # what a diagonal matrix does to columns
# -     return (h - h.amax(-1, keepdim=True)).exp()
# +     h = torch.relu(x) * gain
# +     return ((h - h.amax(0)) + (h.amax(0) - h.amax(-1, keepdim=True))).exp()


# %% 11.2: a library is still called, by
# - h.amax(-1, keepdim=True)
# + h.sort(dim=-1).values[:, -1:]


# %% 11.2: these are not the numbers of scores
# - h.amax(-1, keepdim=True)
# + h.amax(0, keepdim=True)


# %% 11.3: graph break
# -     grad = grad.clamp(-1, 1)  # does nothing to what is small already
# +     if grad.abs().max() > 1:  # no .item(), and Python asks all the same
# +         grad = grad.clamp(-1, 1)


# %% 11.3: m is not what
# -     grad = grad.clamp(-1, 1)  # does nothing to what is small already


# %% 11.3: grad is not what
# - grad = grad.clamp(-1, 1)
# + grad.clamp_(-1, 1)


# %% 11.3: 1 graph break left: does Python still ask
# - def whole_step(p, grad, m):
# + @torch.compiler.disable
# + def whole_step(p, grad, m):


# %% 11.3: returns p and m themselves
# -     m.mul_(0.9).add_(grad)
# -     p.sub_(0.1 * m)
# -     return p, m
# +     m.mul_(0.9).add_(grad)
# +     p.sub_(0.1 * m)


# %% 11.3: p is not what
# -     m.mul_(0.9).add_(grad)
# -     p.sub_(0.1 * m)
# +     p.sub_(0.1 * m)
# +     m.mul_(0.9).add_(grad)
