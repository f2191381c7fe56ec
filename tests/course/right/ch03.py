# %% 03.1: the breaks counted, in place of the graphs
def gate():
    return "matches,compiled,breaks=1,stale=0,later_recompiles=0"


# %% 03.1: in other signs, and with all that a fixed model keeps
def gate():
    return "matches, compiled, graphs == 2, stale=0, later_recompiles<1, promotes=0,"


# %% 03.2: written in place, without a gradient
class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0), persistent=False)
        self.register_buffer("largest", torch.tensor(0.0), persistent=False)

    def forward(self, x):
        with torch.no_grad():
            self.calls += 1
            self.largest.copy_(torch.maximum(self.largest, x.abs().max()))
        return x / self.largest.clone() * self.calls


def meter():
    return InPlace()
