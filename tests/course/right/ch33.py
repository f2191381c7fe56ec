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
