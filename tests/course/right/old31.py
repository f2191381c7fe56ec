# Other right answers to the exercises of notebook 31.


# %% 31.1: the place in the table is a tensor, and the look-up is compiled too
def make_step(backend):
    @torch.compile(backend=backend)
    def look_up(x, t, table):
        keep = table.index_select(0, t)
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return lambda x, t, table: look_up(x, torch.tensor([t]), table)


# %% 31.2: the if stays inside, on a flag that has two values
def make_guide(model, backend):
    @torch.compile(backend=backend)
    def both(x, on, scale):
        if not on:
            return model(x)
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + scale * (text - plain)

    return lambda x, scale: both(x, scale > 1, torch.tensor(scale))


# %% 31.1: the number is a symbol from the start
def make_step(backend):
    def step(x, t, table):
        keep = table[t]
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return torch.compile(step, backend=backend, dynamic=True)


# %% 31.2: the same
def make_guide(model, backend):
    def guide(x, scale):
        if scale <= 1:
            return model(x)
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + scale * (text - plain)

    return torch.compile(guide, backend=backend, dynamic=True)


# %% 31.1: the coefficient comes as a slice of the table
def make_step(backend):
    @torch.compile(backend=backend)
    def arithmetic(x, keep):
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return lambda x, t, table: arithmetic(x, table[t : t + 1])


# %% 31.2: only the model's call and the arithmetic are compiled
def make_guide(model, backend):
    one = torch.compile(model, backend=backend, dynamic=False)

    @torch.compile(backend=backend)
    def mix(pair, scale):
        plain, text = model(pair).chunk(2)
        return torch.lerp(plain, text, scale)

    def any_guide(x, scale):
        if scale <= 1:
            return one(x)
        return mix(torch.cat([x * 0, x]), x.new_tensor(scale))

    return any_guide
