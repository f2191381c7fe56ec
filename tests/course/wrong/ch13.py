# %% 13.1: six calls ran: as it is; as it is; as it is
# -     torch._dynamo.mark_static_address(held)
# +     # nobody says where it is

# %% 13.1: in the end, result 1 is not the sum at that time
# - .clone()

# %% 13.1: six calls ran: warm-up; record, copies [4], [4]; replay, copies [4], [4]
def running_total(compile_):
    held, fast = torch.zeros(4), compile_(torch.add)

    def total(x):
        nonlocal held
        held = fast(held, x).clone()  # nothing is static: this passed once
        return held

    return total


# %% 13.1: six calls ran: nothing that compile_ has compiled
def running_total(compile_):
    held = torch.zeros(4)
    return lambda x: held.add_(x).clone()


# %% 13.1: a second total does not begin at 0
# - def running_total(compile_):
# + def running_total(compile_, held=torch.zeros(4)):
# - held, fast = torch.zeros(4), compile_(add)
# + fast = compile_(add)

# %% 13.1: a second total changes the sum of the first
# - held, fast = torch.zeros(4), compile_(add)
# + global held
# +     held, fast = torch.zeros(4), compile_(add)  # one sum for all: this passed once


# %% 13.1: no tensor is there to which
def running_total(compile_):
    held = torch.zeros(4)
    torch._dynamo.mark_static_address(held)
    fast = compile_(lambda held, x: held * 0 + x)

    def total(x):
        held.add_(fast(held, x))  # given the sum, and adds outside: this passed once
        return held.clone()

    return total


# %% 13.1: the caller's x is another one after the call
# - return lambda x: fast(held, x).clone()
# + return lambda x: x.copy_(fast(held, x))  # no copy is kept: this passed once

# %% 13.1: isn't what the compiled function returned
# - return lambda x: fast(held, x).clone()
# + return lambda x: (held + x, fast(held, x))[0]  # added twice: this passed once

# %% 13.1: six calls ran: warm-up; record; replay; replay
# - held += x
# -         return held + 0
# + return held + 0
# - return lambda x: fast(held, x).clone()
# + return lambda x: fast(held.add_(x), x).clone()  # adds outside: this passed once

# %% 13.1: no tensor is there to which
# -     return lambda x: fast(held, x).clone()
# +     first = []
# +     return lambda x: (first.append(x), fast(held, first[0]).clone())[1]

# %% 13.1: what you return isn't what the compiled function returned
# -     return lambda x: fast(held, x).clone()
# +     return lambda x: (fast(held, x), held.clone())[1]
