# Other right answers to the exercises of notebook 16.


# %% 16.2: distances by norm of the largest
def why_different(fn, compiled, *inputs):
    def equal(a, b):
        return bool(((a == b) | (a.isnan() & b.isnan())).all())

    first, other = fn(*inputs), compiled(*inputs)
    if equal(first, other):
        return "same"
    if not equal(first, fn(*inputs)):
        return "random"
    truth = fn(*[x.to(torch.float64) for x in inputs])
    mine = torch.linalg.vector_norm(first.double() - truth, ord=float("inf"))
    its = torch.linalg.vector_norm(other.double() - truth, ord=float("inf"))
    return "rounding" if bool(its <= 5 * mine) else "bug"
