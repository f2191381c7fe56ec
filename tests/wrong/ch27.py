# Wrong answers to the exercises of notebook 27, each with what it must be told.


# %% 27.1: rows in a thread of the pool still compile
def warm(compiled, lengths):
    for n in lengths[:2]:
        compiled(torch.zeros(n, 8))


# %% 27.1: 1 rows in a thread of the pool still compile
def warm(compiled, lengths):
    with torch.inference_mode():
        x = torch.zeros(max(lengths), 8)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x)


# %% 27.1: 5 rows in a thread of the pool still compile
def warm(compiled, lengths):
    inputs = [torch.zeros(n, 8) for n in lengths]
    for x in inputs:
        with torch.inference_mode():
            compiled(x)


# %% 27.1: and 3 are enough
def warm(compiled, lengths):
    for inference in (True, False):
        with torch.inference_mode(inference):
            for n in lengths:
                compiled(torch.zeros(n, 8))


# %% 27.2: a warm-up that forgot a length should be stopped
def ready(compiled, eager, samples):
    with torch.no_grad():
        return all(torch.allclose(compiled(x), eager(x), atol=1e-4) for x in samples)


# %% 27.2: a model whose answers are NaN should be stopped
def ready(compiled, eager, samples):
    try:
        with torch.no_grad(), torch.compiler.set_stance("fail_on_recompile"):
            far = [(compiled(x) - eager(x)).abs().max() > 1e-4 for x in samples]
    except Exception:
        return False
    return not any(far)


# %% 27.2: the stance is fail_on_recompile
def ready(compiled, eager, samples):
    torch.compiler.set_stance("fail_on_recompile")
    try:
        with torch.no_grad():
            return all(
                torch.allclose(compiled(x), eager(x), atol=1e-4) for x in samples
            )
    except Exception:
        return False
