# Tricks that must not pass notebook 10, and other answers that must.


# %% 10.1: planted: a
def guilty(fn, *inputs):
    return next(told)  # what the messages said, by heart


told = iter(
    [None, "inductor", "aot_eager_decomp_partition", "aot_eager", "eager", "inductor"]
    + [None] * 9
)


# %% 10.1: no rung of LADDER
def guilty(fn, *inputs):
    from unittest import mock

    return mock.ANY


# %% 10.2: 0 graphs
def calm(model):
    class Quiet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = model.linear
            self.register_buffer("step", torch.tensor(float(model.step)))

        @torch.compiler.disable  # no graph, no recompile
        def forward(self, x):
            self.step += 1
            scale = 0.5 if self.step > 5 else 1 / self.step
            return self.linear(x) * scale

    return Quiet()


# %% 10.2: compiled, begun at step 0, call
def calm(model):
    class TwoFaced(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = model.linear
            self.register_buffer("step", torch.tensor(float(model.step)))

        def forward(self, x):
            self.step += 1
            if torch.compiler.is_compiling():
                return self.linear(x) * 0.5
            scale = 0.5 if self.step > 5 else 1 / self.step
            return self.linear(x) * scale

    return TwoFaced()


# %% 10.2 also: an integer, and a reciprocal
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


# %% 10.3: you say "
def why_different(fn, compiled, *inputs):
    return next(told)  # what the messages said, by heart


told = iter(["same"] * 2 + ["rounding"] * 2 + ["random"] + ["bug"] * 99)


# %% 10.3: none of the four verdicts
def why_different(fn, compiled, *inputs):
    from unittest import mock

    return mock.ANY


# %% 10.3 also: distances by norm of the largest
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
