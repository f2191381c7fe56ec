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


# %% 08.1: call 11 returns something else
class Mended(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.register_buffer("step", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.step += 1
        return x + self.step / 10 * self.layer(x)


# %% 08.1: int(model.step) is not 1
class Mended(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.register_buffer("part", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.part += 0.1
        return x + self.part.clamp(max=1) * self.layer(x)


# %% 08.1: and a module class was asked for
Mended = torch.nn.Linear(4, 4)


# %% 08.2: a constant, by: shares =
def mended(x):
    return distances(x)


# %% 08.2: a constant, by: return torch.stack
def mended(x):
    mean = x.mean(0)
    return torch.stack([(row - mean).norm() for row in x])


# %% 08.2: for 7 rows it does not return what
def mended(x):
    return (x - x.sum(0) / 32).norm(dim=1)  # the number of rows, typed in


# %% 08.2: in one graph, marked, it raises
def mended(x):
    return (x - x.mean(0)).norm(dim=1).clone() if x.norm().item() else x[:, 0]


# %% 08.2: does not return one distance for each
def mended(x):
    return (x - x.mean(0)).norm()


# %% 08.2: and one was asked for
def mended(x):
    if x.shape[0] > 10:
        return (x - x.mean(0)).norm(dim=1)
    return (x - x.mean(0)).square().sum(1).sqrt()


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


# %% 08.3: size 1 still needs a compile
def warm_up(compiled, make, sizes):
    x = make(max(sizes))
    torch._dynamo.mark_dynamic(x, 0)
    compiled(x)


# %% 08.3: for 1 to 20, even and odd apart: after the warm-up
def warm_up(compiled, make, sizes):
    for n in {min(n, 2): n for n in sizes}.values():
        x = make(n)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        compiled(x)
