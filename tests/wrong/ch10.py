# Wrong answers to the exercises of notebook 10, each with what it must be told.


# %% 10.1: you found nothing. Was fn compiled anew
def guilty(fn, *inputs):
    wanted = fn(*inputs)
    for rung in ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]:
        torch.compiler.reset()
        try:
            got = torch.compile(fn, backend=rung)(*inputs)
        except Exception:
            return rung
        if not torch.allclose(got, wanted, rtol=1e-3, atol=1e-3):
            return rung
    return None


# %% 10.1: the lowest rung that is wrong
def guilty(fn, *inputs):
    from torch._inductor import config

    wanted = fn(*inputs)
    for rung in ["inductor", "aot_eager_decomp_partition", "aot_eager", "eager"]:
        torch.compiler.reset()
        try:
            with config.patch(fx_graph_cache=False):
                got = torch.compile(fn, backend=rung)(*inputs)
        except Exception:
            return rung
        if not torch.allclose(got, wanted, rtol=1e-3, atol=1e-3):
            return rung
    return None


# %% 10.2: 8 calls cost
def calm(model):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.step = model.linear, model.step
            self.register_buffer("saved", torch.tensor(0))

        def forward(self, x):
            self.step += 1
            scale = 0.5 if self.step > 5 else 1 / self.step
            return self.linear(x) * scale

        def state_dict(self, *args, **more):
            return {**super().state_dict(*args, **more), "step": self.step}

    return Counting()


# %% 10.2: in eager, begun at step 3
def calm(model):
    class FromZero(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = model.linear
            self.register_buffer("step", torch.zeros(()))

        def forward(self, x):
            self.step += 1
            scale = torch.where(self.step > 5, 0.5, 1 / self.step)
            return self.linear(x) * scale

    return FromZero()


# %% 10.2: 2 graphs and 1 break
def calm(model):
    class Branching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = model.linear
            self.register_buffer("step", torch.tensor(float(model.step)))

        def forward(self, x):
            self.step += 1
            torch._dynamo.graph_break()
            scale = torch.where(self.step > 5, 0.5, 1 / self.step)
            return self.linear(x) * scale

    return Branching()


# %% 10.3: bfloat16 that is rounded once: you say "bug"
def why_different(fn, compiled, *inputs):
    eager, other = fn(*inputs), compiled(*inputs)
    if torch.equal(eager.nan_to_num(7), other.nan_to_num(7)):
        return "same"
    if not torch.equal(eager, fn(*inputs)):
        return "random"
    return "rounding" if (eager - other).abs().max() < 1e-6 else "bug"


# %% 10.3: the tanh form of gelu: you say "rounding"
# It errs there only, for the trials come in another order each time.
def why_different(fn, compiled, *inputs):
    eager, other = fn(*inputs), compiled(*inputs)
    if torch.equal(eager.nan_to_num(7), other.nan_to_num(7)):
        return "same"
    if not torch.equal(eager, fn(*inputs)):
        return "random"
    close = torch.allclose(eager, other, rtol=0.3, atol=5e-5)
    return "rounding" if close else "bug"


# %% 10.3: the same NaN: you say
# It errs there only, for the trials come in another order each time.
def why_different(fn, compiled, *inputs):
    eager, other = fn(*inputs), compiled(*inputs)
    if torch.equal(eager, other):
        return "same"
    if not torch.equal(eager, fn(*inputs)):
        return "random"
    truth = fn(*(t.double() for t in inputs))
    own, its = ((t.double() - truth).abs().max() for t in (eager, other))
    return "rounding" if its <= 5 * own else "bug"
