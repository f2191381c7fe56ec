# %% 19.1: the last record is another one
def diagnose(eager, compiled, x):
    from torch._dynamo.utils import get_compilation_metrics
    from torch.profiler import profile

    if not torch.equal(compiled(x), eager(x)):
        return "stale"
    with profile() as seen:
        compiled(x)
    names = {event.key for event in seen.key_averages()}
    if not any(name.startswith("Torch-Compiled Region") for name in names):
        return "silent"
    last = get_compilation_metrics()[-1:]
    compiled(x)
    return "fine" if last == get_compilation_metrics()[-1:] else "slow"


# %% 19.1: a stance that refuses a compile
def diagnose(eager, compiled, x):
    from torch.profiler import profile

    if not torch.allclose(compiled(x), eager(x)):
        return "stale"
    with profile() as run:
        compiled(x)
    if not any("Torch-Compiled Region" in e.name for e in run.events()):
        return "silent"
    with torch.compiler.set_stance("fail_on_recompile"):
        try:
            compiled(x)
        except RuntimeError:
            return "slow"
    return "fine"
