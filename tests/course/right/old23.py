# Other right answers to the exercises of notebook 23.


# %% 23.1: the file is looked at, too
def ship(model, x, path):
    model.compile()
    model(x)
    with open(path, "wb") as file:
        file.write(torch.compiler.save_cache_artifacts()[0])


def start_warm(model, path):
    with open(path, "rb") as file:
        info = torch.compiler.load_cache_artifacts(file.read())
    if not info or not info.inductor_artifacts:
        raise ValueError("no compiled graph in this file")
    model.compile()
    return model


# %% 23.2: as a buffer of a module
class Shifted(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.register_buffer("shift", torch.full((), number / 1000))

    def forward(self, x):
        return torch.nn.functional.gelu(x) + self.shift


make_step = Shifted
