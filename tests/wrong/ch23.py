# Wrong answers to the exercises of notebook 23, each with what it must be told.


# %% 23.1: start_warm missed 2 times
def ship(model, x, path):
    torch.compile(model)(x)
    with open(path, "wb") as file:
        file.write(torch.compiler.save_cache_artifacts()[0])


def start_warm(model, path):
    with open(path, "rb"):
        return torch.compile(model)


# %% 23.1: starts cold without a word
def ship(model, x, path):
    torch.compile(model)(x)
    with open(path, "wb") as file:
        file.write(torch.compiler.save_cache_artifacts()[0])


def start_warm(model, path):
    with open(path, "rb") as file:
        torch.compiler.load_cache_artifacts(file.read())
    return torch.compile(model)


# %% 23.1: ship left no file
def ship(model, x, path):
    torch.compile(model)(x)
    torch.compiler.save_cache_artifacts()


def start_warm(model, path):
    return torch.compile(model)


# %% 23.2: it compiles anew
def make_step(number):
    def step(x):
        return torch.nn.functional.gelu(x) + torch.tensor(number / 1000)

    return step


# %% 23.2: gives other answers
def make_step(number):
    shift = torch.tensor(round(number / 1000))

    def step(x):
        return torch.nn.functional.gelu(x) + shift

    return step
