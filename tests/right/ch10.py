# Other right answers to the exercises of notebook 10.


# %% 10.2: an integer, and a reciprocal
def calm(model):
    class Calm(torch.nn.Module):
        def __init__(self, linear, step):
            super().__init__()
            self.linear = linear
            self.step = torch.nn.Parameter(torch.tensor(float(step)), False)

        def forward(self, x):
            self.step.add_(1)
            late = (self.step > 5).to(x.dtype)
            return self.linear(x) * (late * 0.5 + (1 - late) * self.step.reciprocal())

    return Calm(model.linear, model.step)


# %% 10.3: distances by norm of the largest
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
