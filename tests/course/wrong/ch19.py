# Wrong answers to the exercises of notebook 19, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch19.py.


# %% 19.1: a known size, a new one
# - len(seen) - before
# + len(seen)


# %% 19.1: a callback stays behind
# - callback_handler.remove_start_callback(note)
# + pass


# %% 19.1: the callbacks of others are gone
# - callback_handler.remove_start_callback(note)
# + callback_handler.clear()


# %% 19.1: the callbacks of others are gone
# - seen, counts = [], []
# + torch.compiler.reset()
# +     seen, counts = [], []


# %% 19.1: and the service's own callback was told
def compiles_in(calls):
    import itertools

    from torch._dynamo.callback import callback_handler

    others = list(callback_handler.start_callbacks)
    callback_handler.start_callbacks.clear()
    counts = []
    callback_handler.register_start_callback(lambda _: counts.append(1))
    totals = [0]
    try:
        for call in calls:
            call()
            totals.append(len(counts))
    finally:
        callback_handler.start_callbacks[:] = others
    return [b - a for a, b in itertools.pairwise(totals)]


# %% 19.1: a known size, a new one
def compiles_in(calls):
    from torch._dynamo.utils import get_compilation_metrics

    counts = []
    for call in calls:
        before = len(get_compilation_metrics())  # at most 64
        call()
        counts.append(len(get_compilation_metrics()) - before)
    return counts


# %% 19.1: a training step, twice
def compiles_in(calls):
    from torch._dynamo.callback import callback_handler

    counts = []

    def note(args):
        counts[-1] += args.callback_trigger.name == "DYNAMO"

    callback_handler.register_start_callback(note)
    try:
        for call in calls:
            counts.append(0)
            call()
    finally:
        callback_handler.remove_start_callback(note)
    return counts


# %% 19.1: a callback that came later is gone
# - callback_handler.remove_start_callback(note)
# + callback_handler.start_callbacks.pop()


# %% 19.1: keeps it to itself
# -             call()
# +             try:
# +                 call()
# +             except Exception:
# +                 pass


# %% 19.2: a function that takes long, and does not compile: you say "slow"
# - before = get_compilation_metrics()
# + import time
# +
# +     begin = time.perf_counter()
# - "fine" if get_compilation_metrics() == before else "slow"
# + "slow" if time.perf_counter() - begin > 0.2 else "fine"


# %% 19.2: disable=True: you say "fine"
# -     if not any("Torch-Compiled Region" in e.name for e in seen.events()):
# -         return "silent"


# %% 19.2: a function that nobody has called: you say "slow"
# -     before = get_compilation_metrics()
# -     compiled(x)
# +
# -     if not torch.allclose
# +     before = get_compilation_metrics()
# +     if not torch.allclose


# %% 19.2: a function that is compiled in each call: you say "fine"
# -     before = get_compilation_metrics()
# +     before = len(get_compilation_metrics())
# - "fine" if get_compilation_metrics() == before
# + "fine" if len(get_compilation_metrics()) == before


# %% 19.2: another function, compiled in each call: you say "slow", and it is "stale"
def diagnose(eager, compiled, x):
    from torch._dynamo.utils import get_compilation_metrics

    got = compiled(x)
    before = get_compilation_metrics()
    compiled(x)
    if get_compilation_metrics() != before:
        return "slow"
    return "fine" if torch.allclose(got, eager(x)) else "stale"


# %% 19.2: a function that was compiled before: you say "silent"
def diagnose(eager, compiled, x):
    from torch._dynamo.utils import (
        clear_compilation_metrics,
        get_compilation_metrics,
    )

    clear_compilation_metrics()
    if not torch.allclose(compiled(x), eager(x)):
        return "stale"
    if not get_compilation_metrics():  # no profiler
        return "silent"
    before = get_compilation_metrics()
    compiled(x)
    return "fine" if get_compilation_metrics() == before else "slow"


# %% 19.2: a function past the recompile limit: you say "fine"
# - "Torch-Compiled Region"
# + "TorchDynamo Cache Lookup"


# %% 19.2: a function that was compiled before: you say "silent"
def diagnose(eager, compiled, x):
    from torch._dynamo.callback import callback_handler
    from torch._dynamo.utils import get_compilation_metrics

    seen = []
    callback_handler.register_start_callback(seen.append)
    same = torch.allclose(compiled(x), eager(x))
    callback_handler.remove_start_callback(seen.append)
    if not same:
        return "stale"
    if not seen:
        return "silent"
    before = get_compilation_metrics()
    compiled(x)
    return "fine" if get_compilation_metrics() == before else "slow"
