# Answers to the exercises of notebook 18.  Each cell replaces its stub.

# %% 18.1
from torch._inductor import config as settings

LADDER = ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]
uncached = settings.patch(fx_graph_cache=False)


def first_wrong(fn, *inputs):
    wanted = fn(*inputs)
    for backend in LADDER:
        torch.compiler.reset()
        try:
            with uncached:
                got = torch.compile(fn, backend=backend)(*inputs)
        except Exception:
            return backend
        if not torch.allclose(got, wanted, 1e-3, 1e-3, equal_nan=True):
            return backend
    return None
