# Answers to the exercises of notebook 10.  Each cell replaces its stub.

# %% 10.1
from torch._inductor import config as settings

LADDER = ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]
uncached = settings.patch(fx_graph_cache=False)


def guilty(fn, *inputs):
    wanted = fn(*inputs)
    for rung in LADDER:
        torch.compiler.reset()
        try:
            with uncached:
                got = torch.compile(fn, backend=rung)(*inputs)
        except Exception:
            return rung
        if not torch.allclose(got, wanted, rtol=1e-3, atol=1e-3):
            return rung
    return None


# %% 10.2
class Calm(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.linear = model.linear
        self.register_buffer("step", torch.tensor(float(model.step)))

    def forward(self, x):
        self.step += 1
        scale = torch.where(self.step > 5, 0.5, 1 / self.step)
        return self.linear(x) * scale


def calm(model):
    return Calm(model)


# %% 10.3
def why_different(fn, compiled, *inputs):
    eager, other = fn(*inputs), compiled(*inputs)
    exact = {"rtol": 0, "atol": 0, "equal_nan": True}
    if torch.allclose(eager, other, **exact):
        return "same"
    if not torch.allclose(eager, fn(*inputs), **exact):
        return "random"
    truth = fn(*(t.double() for t in inputs))
    own, its = ((t.double() - truth).abs().max() for t in (eager, other))
    return "rounding" if its <= 5 * own else "bug"
