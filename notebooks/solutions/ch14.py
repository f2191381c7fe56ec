# Answers to the exercises of notebook 14. Try first: a hint costs nothing.


# %% 14.1
class Fixed(torch.nn.Module):
    """A layer whose part grows from nothing to all in ten calls."""

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.register_buffer("step", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.step = self.step + 1
        part = (self.step / 10).clamp(max=1)
        return x + part * self.layer(x)
