# Wrong answers to the exercises of notebook 06, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch06.py.


# %% 06.1: the same mask in each call: such a step cannot be trusted
# - one_mask and not torch.equal(result == 0, again == 0)
# + one_mask


# %% 06.1: one mask, and another in the next call: such a step can be trusted
def sound(step, x):
    torch.manual_seed(0)
    result, gradient = step(x)
    torch.manual_seed(0)  # now the second call must draw the same mask
    again, _ = step(x)
    one_mask = torch.equal(result == 0, gradient == 0)
    return one_mask and not torch.equal(result == 0, again == 0)


# %% 06.1: two masks that drop as many elements: such a step cannot be trusted
# - torch.equal(result == 0, gradient == 0)
# + (result == 0).sum() == (gradient == 0).sum()  # which, is not asked


# %% 06.2: was each in force when the compile happened?
# -             kept = saved_bytes(compiled, *inputs)  # the first call compiles
# +         kept = saved_bytes(compiled, *inputs)  # the budget is gone by now
# - raise ValueError(f"{limit} bytes cannot be kept to")
# + return 1.0  # nothing helps


# %% 06.2: a share of 0.0, and 1.0 is the largest
def frugal(fn, inputs, limit):
    return 0.0  # keeps nothing, so it always fits


# %% 06.2: did each share get a graph of its own?
# - torch.compiler.reset()  # or the first graph would serve every share
# +
# - raise ValueError(f"{limit} bytes cannot be kept to")
# + return None


# %% 06.1: two masks that drop as many elements: such a step cannot be trusted
def sound(step, x):
    (result, gradient), (again, _) = step(x), step(x)
    return not torch.equal(result, again) and 0.4 < (gradient == 0).float().mean() < 0.6


# %% 06.1: one mask, and another in the next call: such a step can be trusted
def sound(step, x):
    (_, gradient), (_, slope) = step(x), step(x)
    return torch.equal(gradient, slope)  # the same backward each time


# %% 06.2: a share of 1.0, and
def frugal(fn, inputs, limit):
    return 1.0  # the default will do


# %% 06.2: and 1.0 is the largest
# - for tenths in range(10, -1, -1):
# + for tenths in range(11):


# %% 06.1: a backward that drops more: such a step cannot be trusted
# - torch.equal(result == 0, gradient == 0)
# + (gradient[result == 0] == 0).all()  # one way only


# %% 06.1: a forward that drops more: such a step cannot be trusted
# - torch.equal(result == 0, gradient == 0)
# + (result[gradient == 0] == 0).all()  # the other way only
