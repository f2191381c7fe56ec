# Wrong answers to the exercises of notebook 31, each with what it must be told.


# %% 31.1: ran no compiled code, after 8 graphs
def make_step(backend):
    @torch.compile(backend=backend)
    def look_up(x, t, table):
        keep = table[torch.as_tensor(t)]
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return look_up


# %% 31.1: the values are not those of step
def make_step(backend):
    kept = []

    @torch.compile(backend=backend)
    def arithmetic(x, keep):
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    def any_step(x, t, table):
        kept.append(table[t])
        return arithmetic(x, kept[0])

    return any_step


# %% 31.1: ran no compiled code, after 0 graphs
def make_step(backend):
    def eager(x, t, table):
        keep = table[t]
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return eager


# %% 31.2: and two are enough
def make_guide(model, backend):
    @torch.compile(backend=backend)
    def guided(x, scale):
        if scale <= 1:
            return model(x)
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + scale * (text - plain)

    return guided


# %% 31.2: guidance off costs two rows, too
def make_guide(model, backend):
    @torch.compile(backend=backend)
    def always(x, scale, on):
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return torch.where(on, plain + scale * (text - plain), text)

    return lambda x, s: always(x, torch.tensor(s), torch.tensor(s > 1))


# %% 31.2: the values are not those of guide
def make_guide(model, backend):
    one = torch.compile(lambda x: model(x), backend=backend)

    @torch.compile(backend=backend)
    def two(x, scale):
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return text + scale * (text - plain)

    return lambda x, s: one(x) if s <= 1 else two(x, torch.tensor(s))
