# Other right answers to the exercises of notebook 19.


# %% 19.1: by the records of compiles, of which torch keeps the last ones
def compiles_in(calls):
    from torch._dynamo.utils import get_compilation_metrics

    counts = []
    for call in calls:
        before = get_compilation_metrics()
        call()
        after = get_compilation_metrics()
        counts.append(sum(record not in before for record in after))
    return counts


# %% 19.1: by the ends, a callback for each call
def compiles_in(calls):
    from torch._dynamo.callback import callback_handler

    counts = []
    for call in calls:
        seen = []
        callback_handler.register_end_callback(seen.append)
        try:
            call()
        finally:
            callback_handler.remove_end_callback(seen.append)
        counts.append(len(seen))
    return counts


# %% 19.2: the last record is another one
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


# %% 19.2: a stance that refuses a compile
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
