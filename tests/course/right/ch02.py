# %% 02.1: the middle of a sorted list, after two warm-ups
def seconds_per_call(launch, wait, now):
    times = []
    for _ in range(12):
        begin = now()
        launch()
        wait()
        times.append(now() - begin)
    return torch.tensor(times[2:]).median().item()


# %% 02.2: an interval of the ratios, from sorted pairs
def race_of(eager, compiled):
    ratios = sorted(eager() / compiled() for _ in range(60))
    low, high = ratios[18], ratios[-19]
    if low > 1.01:
        return "faster"
    return "slower" if high < 0.99 else "cannot tell"
