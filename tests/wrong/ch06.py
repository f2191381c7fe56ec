# Wrong answers to the exercises of notebook 06, each with what it must be told.


# %% 06.1: the same mask in each call: such a step cannot be trusted
def sound(step, x):
    result, gradient = step(x)  # one call only
    return torch.equal(result == 0, gradient == 0)


# %% 06.1: one mask, and another in the next call: such a step can be trusted
def sound(step, x):
    torch.manual_seed(0)
    result, gradient = step(x)
    torch.manual_seed(0)  # now the second call must draw the same mask
    again, _ = step(x)
    one_mask = torch.equal(result == 0, gradient == 0)
    return one_mask and not torch.equal(result == 0, again == 0)


# %% 06.1: two masks that drop as many elements: such a step cannot be trusted
def sound(step, x):
    (result, gradient), (again, _) = step(x), step(x)
    as_many = (result == 0).sum() == (gradient == 0).sum()  # which, is not asked
    return bool(as_many) and not torch.equal(result, again)


# %% 06.2: was that share in force when the compile happened?
def frugal(fn, inputs, limit):
    from course.saved import budget, saved_bytes

    for tenths in range(10, -1, -1):  # the budget is gone at the first call
        torch.compiler.reset()
        with budget(tenths / 10):
            compiled = torch.compile(fn, backend="aot_eager")
        if saved_bytes(compiled, *inputs) <= limit:
            return tenths / 10
    return 1.0  # nothing helps


# %% 06.2: but so does 1.0
def frugal(fn, inputs, limit):
    return 0.0  # keeps nothing, so it always fits


# %% 06.2: did each share get a graph of its own?
def frugal(fn, inputs, limit):
    from course.saved import budget, saved_bytes

    for tenths in range(10, -1, -1):  # the first graph serves every share
        with budget(tenths / 10):
            compiled = torch.compile(fn, backend="aot_eager")
            if saved_bytes(compiled, *inputs) <= limit:
                return tenths / 10
    return None
