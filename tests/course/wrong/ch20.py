# %% 20.1: training that is hard for eager, too: you return False
def same_training(train):
    eager = torch.tensor(train(torch.float32, False))
    return torch.allclose(torch.tensor(train(torch.float32, True)), eager)


# %% 20.1: 3.9 times as far as eager, to the other side: you return False
# - 4 * max
# + 2 * max

# %% 20.1: 4.1 times as far as eager, to the same side: you return True
# - exact = train(torch.float64, False)
# + exact = train(torch.float64, True)

# %% 20.1: an exact eager, and compiled less than 1e-6 off: you return False
# - + 1e-6

# %% 20.1: losses that become NaN: you return True
# - all(off <= room for off in far(ours))
# + not any(off > room for off in far(ours))

# %% 20.1: losses that become NaN, and eager's too: you return True
# - fine and all(off <= room for off in far(ours))
# + all(off <= room or off != off and usual != usual
# +         for off, usual in zip(far(ours), far(eager)))

# %% 20.1: a single NaN in the middle: you return True
# - all(off <= room for off in far(ours))
# + max(far(ours)) <= room and ours[-1] == ours[-1]

# %% 20.1: a last loss that is off: you return True
# - in far(ours))
# + in far(ours)[:-1])

# %% 20.1: a step lost in the middle, which recovers: you return True
# - abs(a - b)
# + a - b


# %% 20.1: as far as eager, and earlier: you return False
def same_training(train):
    runs = (torch.float64, False), (torch.float32, False), (torch.float32, True)
    exact, *both = (torch.tensor(train(*run), dtype=torch.float64) for run in runs)
    eager, ours = ((run - exact).abs().cummax(0).values for run in both)
    return bool((ours <= 4 * eager + 1e-6).all() & ours.isfinite().all())


# %% 20.1: five times as far as eager, and 2e-6 off: you return False
# - 4 * max(far(eager)) + 1e-6
# + max(4 * max(far(eager)), 1e-6)

# %% 20.1: 3.5 times as far as the worst of eager's: you return False
# - max(far(eager))
# + sorted(far(eager))[-2]

# %% 20.1: 4.1 times as far as eager, to the same side
# - train(torch.float32, True)
# + train(torch.float64, True)

# %% 20.1: a single NaN, of eager's
# -     fine = all(off == off for off in far(eager))  # max passes over a NaN
# +     fine = far(eager)[-1] == far(eager)[-1]
