# Answers to the exercises of notebook 08. Try first: a hint costs nothing.


# %% 08.1
class Mended(torch.nn.Module):
    """A layer whose part grows from nothing to all in ten calls."""

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.register_buffer("step", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.step += 1
        part = (self.step / 10).clamp(max=1)
        return x + part * self.layer(x)


# %% 08.2
def mended(x):
    """Return what distances returns, for a number of rows left open."""
    return (x - x.mean(0)).norm(dim=1)


# %% 08.3
def warm_up(compiled, make, sizes):
    """Call compiled until it needs no compile for any of the sizes."""
    kinds = {n if n < 2 else 2 + n % 2: n for n in sizes}
    for n in kinds.values():
        x = make(n)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        compiled(x)
