# Other right answers to the exercises of notebook 02.


# %% 02.1: the middle of a sorted list, after two warm-ups
def seconds_per_call(launch, wait, now):
    times = []
    for _ in range(12):
        begin = now()
        launch()
        wait()
        times.append(now() - begin)
    return torch.tensor(times[2:]).median().item()


# %% 02.2: a ratio
def can_fuse(f, *inputs):
    from helpers import eager_bytes, kernels

    ratio = kernels(f, *inputs).bytes / eager_bytes(f, *inputs).bytes
    return not ratio > 0.5
