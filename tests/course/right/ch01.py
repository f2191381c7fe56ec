# %% 01.2: a forward that calls a compiled one
def repaired(cls, backend):
    step = torch.compile(cls.forward, backend=backend)

    class Repaired(cls):
        def forward(self, *args, **kwargs):
            return step(self, *args, **kwargs)

    return Repaired
