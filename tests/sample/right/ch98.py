# Other right answers to the exercises of notebook 98.


# %% 98.1: an operation in the other order
def double_sine(x):
    return x.sin().mul(2)


# %% 98.2: computed
breaks = len(["sin", "cos", "tan"]) - 1
