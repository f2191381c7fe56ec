# Wrong answers to the exercises of notebook 16, each with what it must be told.


# %% 16.1: you found nothing. Was fn compiled anew
def first_wrong(fn, *inputs):
    wanted = fn(*inputs)
    for backend in ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]:
        torch.compiler.reset()
        try:
            got = torch.compile(fn, backend=backend)(*inputs)
        except Exception:
            return backend
        if not torch.allclose(got, wanted, rtol=1e-3, atol=1e-3):
            return backend
    return None


# %% 16.1: the first backend that is wrong
def first_wrong(fn, *inputs):
    from torch._inductor import config

    wanted = fn(*inputs)
    for backend in ["inductor", "aot_eager_decomp_partition", "aot_eager", "eager"]:
        torch.compiler.reset()
        try:
            with config.patch(fx_graph_cache=False):
                got = torch.compile(fn, backend=backend)(*inputs)
        except Exception:
            return backend
        if not torch.allclose(got, wanted, rtol=1e-3, atol=1e-3):
            return backend
    return None


# %% 16.2: bfloat16 that is rounded once: you say "bug"
def why_different(fn, compiled, *inputs):
    eager, other = fn(*inputs), compiled(*inputs)
    if torch.equal(eager.nan_to_num(7), other.nan_to_num(7)):
        return "same"
    if not torch.equal(eager, fn(*inputs)):
        return "random"
    return "rounding" if (eager - other).abs().max() < 1e-6 else "bug"


# %% 16.2: the tanh form of gelu: you say "rounding"
# It errs there only, for the trials come in another order each time.
def why_different(fn, compiled, *inputs):
    eager, other = fn(*inputs), compiled(*inputs)
    if torch.equal(eager.nan_to_num(7), other.nan_to_num(7)):
        return "same"
    if not torch.equal(eager, fn(*inputs)):
        return "random"
    close = torch.allclose(eager, other, rtol=0.3, atol=5e-5)
    return "rounding" if close else "bug"


# %% 16.2: the same NaN: you say
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
