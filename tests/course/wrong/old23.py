# Wrong answers to the exercises of notebook 23, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old23.py.


# %% 23.1: start_warm missed 2 times
# - torch.compiler.load_cache_artifacts(data) is None
# + not data


# %% 23.1: starts cold without a word
# -         raise ValueError(
# +         _ = (  # and nothing is raised


# %% 23.1: the file broke off at its end
# - if torch.compiler.load_cache_artifacts(data) is None:
# + torch.compiler.load_cache_artifacts(data)
# +     if len(data) < 1000:


# %% 23.1: the file has its length
# - Path(path).write_bytes(data)
# + Path(path).write_bytes(data)
# +     ship.size = len(data)
# - if torch.compiler.load_cache_artifacts(data) is None:
# + torch.compiler.load_cache_artifacts(data)
# +     if len(data) != ship.size:


# %% 23.1: ship leaves model.warm and model.warm.size
# - Path(path).write_bytes(data)
# + Path(path).write_bytes(data)
# +     Path(path + ".size").write_text(str(len(data)))


# %% 23.1: cannot unpack
# - torch.compile(model)(x)
# + torch.compile(model)


# %% 23.1: gives other answers
# - return torch.compile(model)
# + compiled = torch.compile(model)
# +     return lambda x: compiled(x) * 0


# %% 23.1: missed 2 times
# - torch.compile(model)(x)
# + torch.compile(model, dynamic=True)(x)


# %% 23.1: compiled nothing
# - return torch.compile(model)
# + return model


# %% 23.1: raised FileNotFoundError
# - Path(path).write_bytes(data)


# %% 23.2: it compiles anew
# - torch.tensor(number / 1000)
# + number / 1000


# %% 23.2: it compiles anew
# - + shift
# + + torch.full_like(x, float(shift))


# %% 23.2: gives other answers
# - shift = torch.tensor(number / 1000)
# + first = torch.tensor(number / 1000)
# +     shift = make_step.__dict__.setdefault("shift", first)


# %% 23.2: gives other answers
# - number / 1000
# + round(number / 1000)


# %% 23.2: is anything compiled at all
def make_step(number):
    eagerly = torch.compiler.disable(slow_to_start(number))
    return lambda x: eagerly(x)


# %% 23.2: it compiles anew
# -     shift = torch.tensor(number / 1000)
# -
# -     def step(x):
# +     def step(x):
# +         shift = torch.tensor(number / 1000)


# %% 23.2: a tensor, not a parameter
# - torch.tensor(number / 1000)
# + torch.nn.Parameter(torch.tensor(number / 1000))
