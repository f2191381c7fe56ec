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
