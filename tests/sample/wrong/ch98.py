# Wrong answers to the exercises of notebook 98, each with what it must be told.


# %% 98.1: not twice the sine
def double_sine(x):
    return torch.sin(2 * x)


# %% 98.1: made 2 graphs
def double_sine(x):
    y = torch.sin(x)
    print(end="")
    return 2 * y


# %% 98.1: returns list
def double_sine(x):
    return [2 * torch.sin(x)]


# %% 98.1: raised TypeError
def double_sine(x):
    return torch.sin(x) * "2"


# %% 98.2: that is the number of graphs
breaks = 3


# %% 98.2: count again
breaks = 1
