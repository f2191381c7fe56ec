# %% 13.1: a buffer
def running_total(compile_):
    class Total(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", torch.zeros(4))

        def forward(self, x):
            self.held += x
            return self.held

    fast = compile_(Total())
    return lambda x: fast(x).clone()
