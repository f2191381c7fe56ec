# Answers to the exercises of notebook 11. Try first: a hint costs nothing.


# %% 11.1
def trips(n):
    """Return a function of one tensor that makes n trips: 2, 3, 4 or 6."""

    def chain(x):
        return torch.relu(x * 0.9) + 0.1

    def kept(x):
        h = torch.relu(x * 0.9)
        return h, h + 0.1

    def before_a_running_sum(x):
        return torch.relu(x * 0.9).cumsum(-1)

    def around_a_running_sum(x):
        return torch.relu(torch.relu(x).cumsum(-1) + 0.1)

    return {
        2: chain,
        3: kept,
        4: before_a_running_sum,
        6: around_a_running_sum,
    }[n]


# %% 11.2
def lean(x, gain):
    """Return scores(x, gain), in one kernel."""
    h = torch.relu(x) * gain  # what a diagonal matrix does to columns
    return (h - h.amax(-1, keepdim=True)).exp()


# %% 11.3
def whole_step(p, grad, m):
    """Do what momentum_step does, in one kernel when compiled."""
    grad = grad.clamp(-1, 1)  # does nothing to what is small already
    m.mul_(0.9).add_(grad)
    p.sub_(0.1 * m)
    return p, m
