# Other right answers to the exercises of notebook 15.


# %% 15.1: each row, by vmap
def mended(x):
    mean = x.mean(0)
    return torch.vmap(lambda row: (row - mean).norm())(x)


# %% 15.1: the shares, as many as there are rows
def mended(x):
    shares = torch.full((len(x),), 1 / len(x), device=x.device)
    return (x - shares @ x).square().sum(1).sqrt()


# %% 15.2: the mark that must hold, where it holds
def warm_up(compiled, make, sizes):
    seen = set()
    for n in sorted(sizes, reverse=True):
        kind = ("small", n) if n < 2 else ("open", n % 2)
        if kind not in seen:
            seen.add(kind)
            x = make(n)
            if n > 1:
                torch._dynamo.maybe_mark_dynamic(x, 0)
            compiled(x)
