# Other right answers to the exercises of notebook 07.


# %% 07.1: by counting the uses that are left
def predict_bytes(steps, sizes, results):
    eager = compiled = 0
    kernel, groups = 0, []
    for i, (_, kind, _) in enumerate(steps):
        kernel += not (i and kind == steps[i - 1][1] == "pointwise")
        groups.append(kernel)
    maker = {step[0]: group for step, group in zip(steps, groups, strict=True)}
    traffic = set()
    for (made, _, taken), group in zip(steps, groups, strict=True):
        eager += sizes[made] + sum(sizes[name] for name in set(taken))
        for name in taken:
            if maker.get(name) != group:
                traffic |= {(group, name), (maker.get(name), name)}
    traffic |= {(maker[name], name) for name in results if name in maker}
    compiled = sum(sizes[name] for group, name in traffic if group is not None)
    return [eager, compiled]


# %% 07.2: the maximum by max
def lean(x, gain):
    h = x.clamp(min=0).mul(gain)
    return torch.exp(h - torch.max(h, dim=1, keepdim=True).values)


# %% 07.3: lerp and addcmul, out of place and copied back
def mended_step(p, grad, m):
    step = torch.minimum(torch.maximum(grad, -torch.ones(())), torch.ones(()))
    m.copy_(torch.add(step, m, alpha=0.9))
    p.add_(m, alpha=-0.1)
    return p, m
