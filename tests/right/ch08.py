# Other right answers to the exercises of notebook 08.


# %% 08.1: a table of parts, and an integer
class Mended(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        for name, made in (
            ("step", torch.tensor(0)),
            ("parts", torch.arange(11) / 10),
        ):
            self.register_buffer(name, made, persistent=False)

    def forward(self, x):
        self.step.add_(1)
        part = torch.where(self.step < 10, self.step / 10, 1.0)
        return torch.addcmul(x, part.expand_as(x), self.layer(x))


# %% 08.2: by hand
def mended(x):
    centred = x - x.sum(0, keepdim=True) / x.shape[0]
    return torch.linalg.vector_norm(centred, dim=-1)


# %% 08.3: the mark that must hold, where it holds
def warm_up(compiled, make, sizes):
    seen = set()
    for n in sorted(sizes, reverse=True):
        kind = ("small", n) if n < 2 else ("open", n % 2)
        if kind not in seen:
            seen.add(kind)
            x = make(n)
            if n > 1:
                torch._dynamo.maybe_mark_dynamic(x, 0)
            compiled(x)
