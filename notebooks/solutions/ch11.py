# Answers of lesson 11. Open them after you have tried.


# %% 11.1
def lean(x, gain):
    """Return scores(x, gain) in one kernel. gain: a number for each column."""
    h = torch.relu(x) * gain  # what a diagonal matrix does to columns
    return (h - h.amax(-1, keepdim=True)).exp()


# %% 11.2
def whole_step(p, grad, m):
    """Do what momentum_step does, in one kernel when compiled."""
    grad = grad.clamp(-1, 1)  # does nothing to what is small already
    m.mul_(0.9).add_(grad)
    p.sub_(0.1 * m)
    return p, m
