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
        if not torch.allclose(got, wanted, 1e-3, 1e-3, equal_nan=True):
            return backend
    return None
