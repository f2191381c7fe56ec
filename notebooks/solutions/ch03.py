# Answers to the exercises of notebook 03. Try first: a hint costs nothing.


# %% 03.1
def gate():
    return "matches,compiled,graphs=2,breaks=1,stale=0,later_recompiles=0"


# %% 03.2
class Fixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0), persistent=False)
        self.register_buffer("largest", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.calls = self.calls + 1
        largest = x.detach().abs().max()
        self.largest = torch.fmax(self.largest, largest)
        return x / self.largest * self.calls


def meter():
    return Fixed()
