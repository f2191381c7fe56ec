# Wrong answers to the exercises of notebook 03, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch03.py.


# %% 03.1: and 1 was asked for
# -         self.register_buffer("calls", torch.tensor(0), persistent=False)
# +         self.calls = 0


# %% 03.1: another gradient
# - x.detach().abs().max()
# + x.abs().max()


# %% 03.1: find what is wider
# - "largest", torch.zeros(()),
# + "largest", torch.zeros(1),


# %% 03.1: one graph was asked for
# -         largest = x.detach().abs().max()
# +         largest = torch.tensor(x.detach().abs().max().item())


# %% 03.2: not stopped: it runs eagerly
def gate():
    return "matches,breaks<=1,stale=0,later_recompiles=0"


# %% 03.2: stopped, though it is healthy
def gate():
    return "matches,compiled,stale=0,recompiles<=1"


# %% 03.1: call 3 gives another result
# -         self.largest = torch.maximum(self.largest, largest)
# -         return x / self.largest * self.calls
# +         return x / largest * self.calls


# %% 03.1: one graph was asked for
# -     def forward(self, x):
# +     @torch.compiler.disable
# +     def forward(self, x):


# %% 03.2: not stopped: it goes stale
def gate():
    return "matches,compiled,graphs=2,later_recompiles=0"


# %% 03.2: stopped, though it is healthy
def gate():
    return "matches,compiled,graphs=2,stale=0,later_recompiles=0,speedup>=1.3"


# %% 03.2: healthy, with a newer torch: speedup>=1: it is 0.9
def gate():
    return "matches,compiled,graphs=2,stale=0,later_recompiles=0,speedup>=1"


# %% 03.2: stopped, though it is healthy: the healthy one: graphs=1: it is 2
def gate():
    return "matches,compiled,graphs=1,later_recompiles=0,stale=0"


# %% 03.2: not stopped: it has a second break
def gate():
    return "matches,compiled,stale=0,later_recompiles=0"


# %% 03.1: the state_dict has calls, largest, which no old checkpoint has
# - torch.tensor(0), persistent=False
# + torch.tensor(0)
# - torch.zeros(()), persistent=False
# + torch.zeros(())


# %% 03.1: as bfloat16, it has counted to 256 after 300 calls
# - torch.tensor(0)
# + torch.tensor(0.0)


# %% 03.2: not stopped: it runs eagerly, from its one break on
def gate():
    return "matches,breaks=1,stale=0,later_recompiles=0"
