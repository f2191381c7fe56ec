# Wrong answers to the exercises of notebook 19, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch19.py.


# %% 19.1: a training that is hard on eager too: you say False
def same_training(train):
    eager = torch.tensor(train(torch.float32, False))
    return torch.allclose(torch.tensor(train(torch.float32, True)), eager)


# %% 19.1: a step lost in the middle, which recovers: you say True
# - all(off <= room for off in far(ours))
# + far(ours)[-1] <= room


# %% 19.1: losses that become NaN: you say True
# - all(off <= room for off in far(ours))
# + not any(off > room for off in far(ours))


# %% 19.2: another training: the loss of step 3
# - total_steps=len(batches)
# + total_steps=len(batches), cycle_momentum=False


# %% 19.2: graphs in 6 steps, and 2 are allowed
# - optimizer.step()
# + torch.compile(optimizer.step, backend=backend)()


# %% 19.2: compiled code ran 0 times in 6 steps
# -     @torch.compile(backend=backend)
