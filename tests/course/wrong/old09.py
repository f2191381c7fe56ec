# Wrong answers to the exercises of lesson 08, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old09.py.


# %% 09.1: rows lie `columns` apart
# - tl.program_id(0) * columns
# + tl.program_id(0) * BLOCK


# %% 09.1: a row has only `columns` numbers
# - tl.sum(v, 0) / columns
# + tl.sum(v, 0) / BLOCK


# %% 09.1: past them d must be 0
# - tl.where(i < columns, v - tl.sum(v, 0) / columns, 0.0)
# + v - tl.sum(v, 0) / columns


# %% 09.2: Which bias gives probability 0
# - pad(bias, (0, extra), value=float("-inf"))
# + pad(bias, (0, extra))


# %% 09.2: a thread loads 4 bytes at a time
def padded(weight, bias):
    return weight, bias


# %% 09.2: is there an inf in the weight
# - pad(weight, (0, extra))
# + pad(weight, (0, extra), value=float("-inf"))


# %% 09.1: is there a mask
# - variance + 1e-6), mask=i < columns)
# + variance + 1e-6))


# %% 09.1: 1e-6 is added to the variance
# - variance + 1e-6
# + variance


# %% 09.1: numbers are wrong
# - tl.sum(d * d, 0) / columns
# + tl.sum(d * d, 0) / (columns - 1)


# %% 09.2: 87 columns were added
def padded(weight, bias):
    wide = torch.nn.functional.pad(weight, (0, 87))
    return wide, torch.nn.functional.pad(bias, (0, 87), value=float("-inf"))


# %% 09.2: the probabilities change
def padded(weight, bias):
    wide = torch.nn.functional.pad(weight, (23, 0))
    return wide, torch.nn.functional.pad(bias, (23, 0), value=float("-inf"))


# %% 09.2: loads 4 bytes at a time
def padded(weight, bias):
    wide = torch.nn.functional.pad(weight, (0, 22))  # 1023: still odd
    return wide, torch.nn.functional.pad(bias, (0, 22), value=float("-inf"))


# %% 09.2: 999 words became 1006, and a thread loads 8 bytes at a time
def padded(weight, bias):
    wide = torch.nn.functional.pad(weight, (0, 7))  # right for 1001 words alone
    return wide, torch.nn.functional.pad(bias, (0, 7), value=float("-inf"))


# %% 09.2: 64 columns were added
# - -len(bias) % (16 // bias.element_size())
# + 64 - len(bias) % 64  # one block more where none is needed
