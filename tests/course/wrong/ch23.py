# Wrong answers to the exercises of notebook 23, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch23.py.


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
def ship(model, x, path):
    torch.compile(model)(x)
    data, _ = torch.compiler.save_cache_artifacts()
    with open(path, "wb") as file:
        file.write(data)
    with open(path + ".size", "w") as file:
        file.write(str(len(data)))


def start_warm(model, path):
    with open(path, "rb") as file, open(path + ".size") as size:
        data, wanted = file.read(), int(size.read())
    if len(data) != wanted:
        raise ValueError("the file is not whole")
    torch.compiler.load_cache_artifacts(data)
    return torch.compile(model)


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
