# Tricks that must not pass notebook 02, and other answers that must.


# %% 02.1: your answer is another
def seconds_per_call(launch, wait, now):
    for _ in range(5):
        launch()
        wait()
    return 0.002  # what the check's device takes


# %% 02.1: on a quiet device
def seconds_per_call(launch, wait, now):
    for _ in range(21):
        launch()
        wait()
    return float("nan")  # neither too small nor too large


# %% 02.1 also: the middle of a sorted list, after two warm-ups
def seconds_per_call(launch, wait, now):
    times = []
    for _ in range(12):
        begin = now()
        launch()
        wait()
        times.append(now() - begin)
    return torch.tensor(times[2:]).median().item()


# %% 02.2: asked once more
def can_fuse(f, *inputs):
    return next(told)  # what the messages said, by heart


told = iter([True, True, False, False, False, *[True] * 99])


# %% 02.2: a chain with two inputs
def can_fuse(f, *inputs):
    from helpers import eager_bytes

    return len(inputs) == 1 and len(eager_bytes(f, *inputs).calls) > 1


# %% 02.2: True or False, not
def can_fuse(f, *inputs):
    from unittest import mock

    return mock.ANY


# %% 02.2 also: a ratio
def can_fuse(f, *inputs):
    from helpers import eager_bytes, kernels

    ratio = kernels(f, *inputs).bytes / eager_bytes(f, *inputs).bytes
    return not ratio > 0.5


# %% 02.3: no code was generated
def make():
    import torch

    def f(x):
        return torch.sin(x) * 2 + 1

    return f, torch.compile(f, backend="eager"), torch.randn(1000)


# %% 02.3: could not be compared
def make():
    import torch

    def f(x):
        return torch.rand_like(x)

    return f, torch.compile(lambda x: torch.rand_like(x) + 1), torch.randn(1000)
