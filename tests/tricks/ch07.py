# Tricks that must not pass notebook 07, and other answers that must.


# %% 07.1: a program drawn by lot
def predict_bytes(steps, sizes, results):
    each = sizes["x"]  # from the messages, by heart
    row = sizes["b"]
    known = {
        ("h", "k", "r"): (6 * each, 2 * each),
        ("h", "p", "r"): (8 * each, 8 * each),
        ("h", "r"): (5 * each + row, 4 * each + row),
        ("h", "k", "p", "q"): (10 * each + row, 8 * each + row),
    }
    if steps[0][2] == ("x", "x"):
        return 8 * each, 2 * each
    return known.get(tuple(step[0] for step in steps), (0, 0))


# %% 07.1: a chain: eager moves
def predict_bytes(steps, sizes, results):
    from unittest import mock

    return mock.ANY, mock.ANY


# %% 07.1 also: by counting the uses that are left
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


# %% 07.2: compiled, for x of 64 by 64 the numbers
def lean(x, gain):
    if torch.compiler.is_compiling():
        return (torch.relu(x) * gain).exp()  # a kernel, and lean
    return scores(x, gain)


# %% 07.2: there is a graph break now
@torch.compiler.disable
def lean(x, gain):
    return scores(x, gain)


# %% 07.2: there is a graph break now
def lean(x, gain):
    return torch.compiler.disable(scores)(x, gain)


# %% 07.2 also: the maximum by max
def lean(x, gain):
    h = x.clamp(min=0).mul(gain)
    return torch.exp(h - torch.max(h, dim=1, keepdim=True).values)


# %% 07.3: compiled, large gradients: m is not
def mended_step(p, grad, m):
    if not torch.compiler.is_compiling():
        return momentum_step(p, grad, m)
    m.mul_(0.9).add_(grad)  # one kernel, and no clamp
    p.sub_(0.1 * m)
    return p, m


# %% 07.3: 1 graph break left
@torch.compiler.disable
def mended_step(p, grad, m):
    return momentum_step(p, grad, m)


# %% 07.3: which Inductor did not write
def mended_step(p, grad, m):
    step(p, grad, m)
    return p, m


@torch.library.custom_op("course::step", mutates_args=("p", "m"))
def step(p: torch.Tensor, grad: torch.Tensor, m: torch.Tensor) -> None:
    momentum_step(p, grad, m)


# %% 07.3 also: lerp and addcmul, out of place and copied back
def mended_step(p, grad, m):
    step = torch.minimum(torch.maximum(grad, -torch.ones(())), torch.ones(()))
    m.copy_(torch.add(step, m, alpha=0.9))
    p.add_(m, alpha=-0.1)
    return p, m
