# Other right answers to the exercises of notebook 18.


# %% 18.1: by the stance, one compiled function
def first_wrong(fn, *inputs):
    wanted = fn(*inputs)
    compiled = torch.compile(fn)
    for backend in LADDER:
        torch.compiler.reset()
        stance = torch.compiler.set_stance("default", force_backend=backend)
        with uncached, stance:
            try:
                got = compiled(*inputs)
            except Exception:
                return backend
        if not torch.allclose(got, wanted, rtol=1e-3, atol=1e-3):
            return backend
    return None


# %% 18.2: distances where the two are not equal
def why_different(fn, compiled, *inputs):
    def equal(a, b):
        return bool(((a == b) | (a.isnan() & b.isnan())).all())

    first, other = fn(*inputs), compiled(*inputs)
    if equal(first, other):
        return "same"
    if not equal(first, fn(*inputs)):
        return "random"
    truth = fn(*[x.to(torch.float64) for x in inputs])
    there = ~((other == truth) | (other.isnan() & truth.isnan()))
    known = ~((first == truth) | (first.isnan() & truth.isnan()))
    its = (other.double() - truth)[there].abs().amax() if there.any() else 0
    mine = (first.double() - truth)[known].abs().amax() if known.any() else 0
    return "rounding" if bool(its <= 5 * mine) else "bug"
