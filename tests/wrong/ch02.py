# Wrong answers to the exercises of notebook 02, each with what it must be told.


# %% 02.1: still working
def seconds_per_call(launch, wait, now):
    launch()
    wait()
    begin = now()
    for _ in range(21):
        launch()
    return (now() - begin) / 21


# %% 02.1: the first call
def seconds_per_call(launch, wait, now):
    begin = now()
    for _ in range(21):
        launch()
        wait()
    return (now() - begin) / 21


# %% 02.1: interrupted
def seconds_per_call(launch, wait, now):
    launch()
    wait()
    begin = now()
    for _ in range(21):
        launch()
        wait()
    return (now() - begin) / 21


# %% 02.2: nothing to fuse
def can_fuse(f, *inputs):
    return True


# %% 02.2: although it is one kernel
def can_fuse(f, *inputs):
    from helpers import kernels

    return len(kernels(f, *inputs).generated) == 1


# %% 02.2: but not half
def can_fuse(f, *inputs):
    from helpers import eager_bytes, kernels

    return eager_bytes(f, *inputs).bytes > kernels(f, *inputs).bytes


# %% 02.3: does not stand on its own
def make():
    return chain, torch.compile(chain), torch.randn(1000)


# %% 02.3: nothing was compiled
def make():
    import torch

    def f(x):
        return torch.sin(x) * 2 + 1

    return f, f, torch.randn(1000)
