# Tricks that must not pass notebook 98, and other answers that must.


# %% 98.1: for an x of shape (7,)
def double_sine(x):
    return 2 * torch.linspace(0, 1, 5).sin()  # the x of the check, and no other


# %% 98.1: compiled, for an x of shape (5,)
def double_sine(x):
    return x if torch.compiler.is_compiling() else 2 * torch.sin(x)


# %% 98.1: made 0 graphs
def double_sine(x):
    return torch.compiler.disable(lambda x: 2 * torch.sin(x))(x)


# %% 98.1 also: an operation in the other order
def double_sine(x):
    return x.sin().mul(2)


# %% 98.2: a number was wanted
from unittest import mock

breaks = mock.ANY


# %% 98.2: count again
breaks = float("nan")


# %% 98.2 also: computed
breaks = len(["sin", "cos", "tan"]) - 1
