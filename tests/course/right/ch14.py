# %% 14.1: a table of parts, and an integer
class Fixed(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        for name, made in (
            ("step", torch.tensor(0)),
            ("parts", torch.arange(11) / 10),
        ):
            self.register_buffer(name, made, persistent=False)

    def forward(self, x):
        self.step = self.step.add(1)
        part = torch.where(self.step < 10, self.step / 10, 1.0)
        return torch.addcmul(x, part.to(x.dtype).expand_as(x), self.layer(x))
