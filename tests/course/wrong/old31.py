# Wrong answers to the exercises of notebook 31, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old31.py.


# %% 31.1: three timesteps made 3 graphs
def make_step(backend):
    @torch.compile(backend=backend)
    def look_up(x, t, table):
        keep = table[torch.as_tensor(t)]
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return look_up


# %% 31.1: no compiled code ran
# -     @torch.compile(backend=backend)


# %% 31.2: and two are enough
def make_guide(model, backend):
    @torch.compile(backend=backend)
    def guided(x, scale):
        if scale <= 1:
            return model(x)
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + scale * (text - plain)

    return guided


# %% 31.2: scale 1.0 costs 2 rows, and one is enough
def make_guide(model, backend):
    @torch.compile(backend=backend)
    def always(x, scale, on):
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return torch.where(on, plain + scale * (text - plain), text)

    return lambda x, s: always(x, torch.tensor(s), torch.tensor(s > 1))


# %% 31.2: the values are not those of guide
# - return plain + scale * (text - plain)
# + return text + scale * (text - plain)


# %% 31.1: only 1 operation of the arithmetic is compiled
def make_step(backend):
    tanh = torch.compile(torch.tanh, backend=backend)

    def step(x, t, table):
        keep = table[t]
        return keep.sqrt() * x + (1 - keep).sqrt() * tanh(x)

    return step


# %% 31.1: three timesteps made 2 graphs
def make_step(backend):
    @torch.compile(backend=backend)
    def step(x, t, table):
        keep = table[t]
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return step


# %% 31.2: and two are enough
def make_guide(model, backend):
    one = torch.compile(model, backend=backend)

    @torch.compile(backend=backend)
    def two(x, scale):
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + torch.as_tensor(scale) * (text - plain)

    return lambda x, scale: one(x) if scale <= 1 else two(x, scale)


# %% 31.2: with scale 0.5 the values are not those of guide
def make_guide(model, backend):
    one = torch.compile(model, backend=backend)

    @torch.compile(backend=backend)
    def two(x, scale):
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + scale * (text - plain)

    return lambda x, s: one(x) if s == 1 else two(x, torch.tensor(s))


# %% 31.1: three timesteps made 3 graphs
def make_step(backend):
    @torch.compile(backend=backend)
    def step(x, t, table):
        keep = table[t]
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    return lambda x, t, table: step(x, torch.tensor(t), table)


# %% 31.1: three timesteps made 2 graphs
def make_step(backend):
    @torch.compile(backend=backend)
    def step(x, keep):
        return keep**0.5 * x + (1 - keep) ** 0.5 * torch.tanh(x)

    return lambda x, t, table: step(x, table[t].item())


# %% 31.2: scale 7.5 ran no compiled code
def make_guide(model, backend):
    one = torch.compile(model, backend=backend)
    return lambda x, scale: one(x) if scale <= 1 else guide(model, x, scale)


# %% 31.2: and two are enough
def make_guide(model, backend):
    kept = {}

    def any_guide(x, scale):
        if scale not in kept:
            kept[scale] = torch.compile(
                lambda x: guide(model, x, scale), backend=backend
            )
        return kept[scale](x)

    return any_guide


# %% 31.2: scale 1.0 costs 2 rows, and one is enough
def make_guide(model, backend):
    @torch.compile(backend=backend)
    def two(x, scale):
        plain, text = model(torch.cat([x * 0, x])).chunk(2)
        return plain + scale * (text - plain)

    return lambda x, scale: two(x, max(scale, 1.0))


# %% 31.1: at timestep 330, of another table, the values are not those of step
def make_step(backend):
    tables = []

    @torch.compile(backend=backend)
    def arithmetic(x, keep):
        return keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)

    def step(x, t, table):
        tables.append(table)
        return arithmetic(x, tables[0][t])

    return step


# %% 31.2: no graph that ran gets the scale 7.5: its arithmetic is eager
def make_guide(model, backend):
    one = torch.compile(lambda x: model(x), backend=backend)
    two = torch.compile(lambda x: model(torch.cat([x * 0, x])), backend=backend)

    def any_guide(x, scale):
        if scale <= 1:
            return one(x)
        plain, text = two(x).chunk(2)
        return plain + scale * (text - plain)

    return any_guide
