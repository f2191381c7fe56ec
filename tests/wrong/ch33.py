# Wrong answers to the exercises of notebook 33, each with what it must be told.


# %% 33.1: and 1 was asked for
class Counts(torch.nn.Module):  # one ill is mended
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("largest", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.largest = torch.maximum(self.largest, x.detach().abs().max())
        return x / self.largest * self.calls


def meter():
    return Counts()


# %% 33.1: another gradient
class Slope(torch.nn.Module):  # of the largest number, too
    def __init__(self):
        super().__init__()
        for name in ("calls", "largest"):
            self.register_buffer(name, torch.zeros(()))

    def forward(self, x):
        largest = torch.maximum(self.largest, x.abs().max())
        self.calls, self.largest = self.calls + 1, largest.detach()
        return x / largest * self.calls


def meter():
    return Slope()


# %% 33.1: find what is wider
class Wide(torch.nn.Module):  # a dimension takes part in the dtype of the result
    def __init__(self):
        super().__init__()
        for name in ("calls", "largest"):
            self.register_buffer(name, torch.zeros(1))

    def forward(self, x):
        largest = torch.maximum(self.largest, x.detach().abs().max())
        self.calls, self.largest = self.calls + 1, largest
        return x / largest * self.calls


def meter():
    return Wide()


# %% 33.1: one graph was asked for
class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.largest = 0.0

    def forward(self, x):
        self.calls = self.calls + 1
        self.largest = max(self.largest, x.abs().max().item())
        return x / self.largest * self.calls


def meter():
    return Broken()


# %% 33.2: not stopped: it runs eagerly
def gate():
    return "matches,breaks=0,stale=0,later_recompiles=0"


# %% 33.2: stopped, though it is healthy
def gate():
    return "matches,compiled,stale=0,recompiles<=1"


# %% 33.2: return one text
def gate():
    return {"matches": True, "graphs": 1}
