# Wrong answers to the exercises of notebook 13, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch13.py.


# %% 13.1: call 2 was no replay, but: as it is
# -     torch._dynamo.mark_static_address(held)
# +     # nobody says where it lies


# %% 13.1: the result of call 0 was overwritten by a later one
# - .clone()


# %% 13.1: the result of call 0 was overwritten by a later one
# - return held + 0
# + return held.clone()
# - fast(held, x).clone()
# + fast(held, x)


# %% 13.1: the result of call 0 was overwritten by a later one
# - fast(held, x).clone()
# + fast(held, x).detach()


# %% 13.1: uses a result that was overwritten
def running_total(compile_):
    held, fast = torch.zeros(4), compile_(torch.add)

    def total(x):
        nonlocal held
        held = fast(held, x)
        return held.clone()

    return total


# %% 13.1: uses a result that was overwritten
def running_total(compile_):
    held, fast = torch.zeros(4), compile_(torch.add)

    def total(x):
        nonlocal held
        torch.compiler.cudagraph_mark_step_begin()
        held = fast(held, x)
        return held.clone()

    return total


# %% 13.1: nothing ran that compile_ has compiled
def running_total(compile_):
    held = torch.zeros(4)
    return lambda x: held.add_(x).clone()


# %% 13.1: call 0 does not give the sum of its own inputs so far
# - def running_total(compile_):
# + def running_total(compile_, held=torch.zeros(4)):
# - held, fast = torch.zeros(4), compile_(add)
# + fast = compile_(add)


# %% 13.1: call 0 ran 2 graphs: the sum is made in one
# -         held += x
# +         held += x
# +         print(end="")


# %% 13.1: call 1 changed what it was given
# -     return lambda x: fast(held, x).clone()
# +     return lambda x: x.copy_(fast(held, x))


# %% 13.1: call 2 was no replay, but: record
def running_total(compile_):
    def add(held, x):
        held += x
        return held + 0

    held, fast = torch.zeros(4), compile_(add)
    everything = []

    def total(x):
        nonlocal held
        everything.append(held)
        held = held.clone()  # as if it could be lost
        torch._dynamo.mark_static_address(held)
        return fast(held, x).clone()

    return total


# %% 13.2: step 0 leaves a .grad in memory that torch gave away
def accumulate(loss_of, parameters, batches):
    for p in parameters:
        p.grad = None
    for batch in batches:
        loss_of(batch).backward()


# %% 13.2: step 0 leaves a .grad in memory that torch gave away
# -         if p.grad is None:
# -             p.grad = torch.zeros_like(p)
# -         p.grad.zero_()
# +         if p.grad is not None:
# +             p.grad.zero_()


# %% 13.2: in step 1 a .grad is not the sum of the 3 gradients of that step
# -         p.grad.zero_()
# +         pass


# %% 13.2: in step 0 a .grad is not the sum of the 2 gradients of that step
# - loss_of(batch).backward()
# + (loss_of(batch) / len(batches)).backward()


# %% 13.2: step 0 ran 0 graphs for 2 batches, not two for each
# - loss_of(batch).backward()
# + loss_of._orig_mod(batch).backward()


# %% 13.2: step 0 leaves a parameter without .grad
def accumulate(loss_of, parameters, batches):
    sums = [torch.zeros_like(p) for p in parameters]
    for batch in batches:
        found = torch.autograd.grad(loss_of(batch), parameters)
        for total, grad in zip(sums, found, strict=True):
            total += grad


# %% 13.2: step 0 leaves a .grad in memory that torch gave away
def accumulate(loss_of, parameters, batches):
    for p in parameters:
        p.grad = None
    for batch in batches:
        torch.compiler.cudagraph_mark_step_begin()
        loss_of(batch).backward()


# %% 13.1: the compiled function is given x, and no sum to add it to
def running_total(compile_):
    held, fast = torch.zeros(4), compile_(lambda x: x + 0)

    def total(x):
        nonlocal held
        held = held + fast(x)
        return held

    return total


# %% 13.1: call 2 was no replay, but: as it is
# -     torch._dynamo.mark_static_address(held)
# -     return lambda x: fast(held, x).clone()
# +     def total(x):
# +         result = fast(held, x).clone()
# +         torch._dynamo.mark_static_address(held)  # too late
# +         return result
# +     return total


# %% 13.2: in step 2 not all was replayed
def accumulate(loss_of, parameters, batches):
    for p in parameters:
        p.grad = None
    sum(loss_of(batch) for batch in batches).backward()


# %% 13.2: step 0 ran 2 graphs for 2 batches, not two for each
def accumulate(loss_of, parameters, batches):
    for p in parameters:
        p.grad = torch.zeros_like(p)
    loss_of(torch.cat(batches)).backward()
    for p in parameters:
        p.grad.mul_(len(batches))
