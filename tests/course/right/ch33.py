# Other right answers to the exercises of notebook 33.


# %% 33.1: with where, in place of maximum
class Where(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(2))

    def forward(self, x):
        calls, largest = self.state.unbind()
        here = x.detach().abs().amax().float()
        calls, largest = calls + 1, torch.where(here > largest, here, largest)
        self.state = torch.stack([calls, largest])
        return x / largest * calls


def meter():
    return Where()


# %% 33.1: written in place, without a gradient
class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("largest", torch.tensor(0.0))

    def forward(self, x):
        with torch.no_grad():
            self.calls += 1
            self.largest.copy_(torch.maximum(self.largest, x.abs().max()))
        return x / self.largest.clone() * self.calls


def meter():
    return InPlace()


# %% 33.1: Python's max of two tensors, which Dynamo captures
class Max(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("largest", torch.tensor(0.0))

    def forward(self, x):
        self.calls = self.calls + 1
        self.largest = max(self.largest, x.detach().abs().max())
        return x / self.largest * self.calls


def meter():
    return Max()
