# %% 03.1: in other signs, and with all that a fixed model keeps
def gate():
    return "matches, compiled, graphs == 2, breaks<=1, stale=0, later_recompiles<1,"


# %% 03.2: assigned by other functions
class Assigned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0), persistent=False)
        self.register_buffer("largest", torch.tensor(0.0), persistent=False)

    def forward(self, x):
        with torch.no_grad():
            self.calls = torch.add(self.calls, 1)
            most = x.abs().amax()
            self.largest = torch.where(most > self.largest, most, self.largest)
        return self.calls * (x / self.largest)


def meter():
    return Assigned()
