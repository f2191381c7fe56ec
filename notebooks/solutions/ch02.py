# Answers of lesson 02. Open them after you have tried.

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
def race_of(eager, compiled):
    """Return "faster", "slower" or "cannot tell"."""
    wins = 0
    for turn in range(30):
        if turn % 2:
            a, b = eager(), compiled()
        else:
            b, a = compiled(), eager()
        wins += a > b
    if wins >= 24:
        return "faster"
    return "slower" if wins <= 6 else "cannot tell"
