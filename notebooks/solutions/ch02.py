# Answers of chapter 02. Open them after you have tried.

# %% 02.1
def seconds_per_call(launch, wait, now):
    """Return the seconds that one typical warm call takes."""
    import statistics

    launch()
    wait()
    times = []
    for _ in range(21):
        begin = now()
        launch()
        wait()
        times.append(now() - begin)
    return statistics.median(times)


# %% 02.2
def can_fuse(f, *inputs):
    """Return True when compiling at least halves the bytes moved."""
    from helpers import eager_bytes, kernels

    return eager_bytes(f, *inputs).bytes >= 2 * kernels(f, *inputs).bytes


# %% 02.3
def make():
    """Return (eager, compiled, inputs), with everything made in here."""
    import torch

    def f(x):
        return torch.sin(x) * 2 + 1

    return f, torch.compile(f), torch.randn(1000)
