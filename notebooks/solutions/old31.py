# Answers to the exercises of notebook 31.  Each cell replaces its stub.


# %% 31.1
def make_step(backend):
    @torch.compile(backend=backend)
    def arithmetic(x, keep):
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    def any_step(x, t, table):
        return arithmetic(x, table[t])

    return any_step


# %% 31.2
def make_guide(model, backend):
    one = torch.compile(lambda x: model(x), backend=backend)

    @torch.compile(backend=backend)
    def two(x, scale):
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + scale * (text - plain)

    def any_guide(x, scale):
        return one(x) if scale <= 1 else two(x, torch.tensor(scale))

    return any_guide
