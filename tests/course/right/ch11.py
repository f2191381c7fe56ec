# Other right answers to the exercises of notebook 11.


# %% 11.1: by a mean, a sort, and a product
def trips(n):
    if n == 2:
        return lambda x: x.softmax(-1)
    if n == 3:
        return lambda x: x - x.mean()
    if n == 4:
        return lambda x: torch.relu(x).sort(-1).values
    return lambda x: torch.relu(torch.relu(x).sort(-1).values - 0.1)


# %% 11.3: lerp and addcmul, out of place and copied back
def whole_step(p, grad, m):
    step = torch.minimum(torch.maximum(grad, -torch.ones(())), torch.ones(()))
    m.copy_(torch.add(step, m, alpha=0.9))
    p.add_(m, alpha=-0.1)
    return p, m
