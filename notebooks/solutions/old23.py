# Answers to the exercises of notebook 23.  Each cell replaces its stub.


# %% 23.1
def ship(model, x, path):
    from pathlib import Path

    torch.compile(model)(x)
    data, _ = torch.compiler.save_cache_artifacts()
    Path(path).write_bytes(data)


def start_warm(model, path):
    from pathlib import Path

    data = Path(path).read_bytes()
    if torch.compiler.load_cache_artifacts(data) is None:
        raise ValueError(
            "torch does not take this file: the start would be cold"
        )
    return torch.compile(model)


# %% 23.2
def make_step(number):
    shift = torch.tensor(number / 1000)

    def step(x):
        return torch.nn.functional.gelu(x) + shift

    return step
