# Answers to the exercises of notebook 14. Try first: a hint costs nothing.


# %% 14.1
class Mended(torch.nn.Module):
    """A layer whose part grows from nothing to all in ten calls."""

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.register_buffer("step", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.step += 1
        part = (self.step / 10).clamp(max=1)
        return x + part * self.layer(x)


# %% 14.2
def compile_step(step, backend):
    """Return a compiled step(x) that keeps an exact version for 64 rows."""
    exact = torch.compile(step, backend=backend, dynamic=False)
    any_size = torch.compile(step, backend=backend, dynamic=True)
    return lambda x: exact(x) if len(x) == 64 else any_size(x)
