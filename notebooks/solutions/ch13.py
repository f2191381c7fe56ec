# Answers of lesson 13. Open them after you have tried.


# %% 13.1
def running_total(compile_):
    """Return a function total(x): the sum of all x so far, to keep."""

    def add(held, x):
        held += x
        return held + 0

    held, fast = torch.zeros(4), compile_(add)
    torch._dynamo.mark_static_address(held)
    return lambda x: fast(held, x).clone()
