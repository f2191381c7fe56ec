# Wrong answers to the exercises of notebook 17, each with what it must be told.


# %% 17.1: a known size, a new one
def compiles_in(calls):
    from torch._dynamo.utils import get_compilation_metrics

    counts = []
    for call in calls:
        torch.compiler.reset()
        before = len(get_compilation_metrics())
        call()
        counts.append(len(get_compilation_metrics()) - before)
    return counts


# %% 17.1: a callback stays behind
def compiles_in(calls):
    from torch._dynamo.callback import callback_handler

    seen, counts = [], []
    callback_handler.register_start_callback(seen.append)
    for call in calls:
        before = len(seen)
        call()
        counts.append(len(seen) - before)
    return counts


# %% 17.2: a function that is silent: you say "fine"
def diagnose(eager, compiled, x):
    from torch._dynamo.utils import get_compilation_metrics

    if not torch.allclose(compiled(x), eager(x)):
        return "stale"
    before = len(get_compilation_metrics())
    compiled(x)
    return "fine" if len(get_compilation_metrics()) == before else "slow"


# %% 17.2: a function that is fine: you say "slow"
def diagnose(eager, compiled, x):
    from torch._dynamo.utils import get_compilation_metrics
    from torch.profiler import profile

    before = len(get_compilation_metrics())
    if not torch.allclose(compiled(x), eager(x)):
        return "stale"
    with profile() as seen:
        compiled(x)
    if not any("Torch-Compiled Region" in e.name for e in seen.events()):
        return "silent"
    return "fine" if len(get_compilation_metrics()) == before else "slow"
