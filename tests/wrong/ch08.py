# Wrong answers to the exercises of notebook 08, each with what it must be told.


# %% 08.1: and at most 2 were asked for
Mended = Warmup


# %% 08.1: one graph was asked for
class Mended(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.register_buffer("step", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.step += 1
        part = min(self.step.item() / 10, 1.0)
        return x + part * self.layer(x)


# %% 08.1: the keys of the state_dict differ: step
class Mended(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.register_buffer("step", torch.zeros(()))

    def forward(self, x):
        self.step += 1
        return x + (self.step / 10).clamp(max=1) * self.layer(x)


# %% 08.2: a constant, by: return torch.stack
def mended(x):
    mean = x.mean(0)
    return torch.stack([(row - mean).norm() for row in x])


# %% 08.2: given [7, 5], the numbers are off
def mended(x):
    return (x - x.sum(0) / 32).norm(dim=1)  # the number of rows, typed in


# %% 08.2: and one was asked for
def mended(x):
    if x.shape[0] > 10:
        return (x - x.mean(0)).norm(dim=1)
    return (x - x.mean(0)).square().sum(1).sqrt()


# %% 08.2: hides in an operator
@torch.library.custom_op("course::distances", mutates_args=())
def mended(x: torch.Tensor) -> torch.Tensor:
    return distances(x)


@mended.register_fake
def _(x):
    return x.new_empty(x.shape[0])


# %% 08.3: still needs a compile
def warm_up(compiled, make, sizes):
    compiled(make(sizes[0]))


# %% 08.3: and at most 4 were asked for
def warm_up(compiled, make, sizes):
    for n in sizes:
        compiled(make(n))


# %% 08.3: were compiled, and 1 would do
def warm_up(compiled, make, sizes):
    compiled(make(sizes[0]))  # exact
    compiled(make(sizes[-1]))  # open
