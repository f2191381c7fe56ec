# %% 19.1: disable=True: you say "fine"
# -     if not any("CompiledFxGraph" in e.name for e in seen.events()):
# -         return "silent"

# %% 19.1: a function that was never called: you say "slow"
# -     before = get_compilation_metrics()
# -     for _ in range(3):  # a compile may come now and then
# -         compiled(x)
# +
# -     if not torch.allclose
# +     before = get_compilation_metrics()
# +     if not torch.allclose

# %% 19.1: a function that is compiled in each call: you say "fine"
# -     before = get_compilation_metrics()
# +     before = len(get_compilation_metrics())
# - "fine" if get_compilation_metrics() == before
# + "fine" if len(get_compilation_metrics()) == before

# %% 19.1: another function, compiled in each call: you say "slow", and it is "stale"
# -     if not torch.allclose(compiled(x), eager(x)):
# -         return "stale"
# +     compiled(x)
# - return "fine" if get_compilation_metrics() == before else "slow"
# + if get_compilation_metrics() != before:
# +         return "slow"
# +     return "fine" if torch.allclose(compiled(x), eager(x)) else "stale"

# %% 19.1: a function that was compiled before: you say "silent"
# -     if not torch.allclose
# +     from torch._dynamo.utils import clear_compilation_metrics
# +
# +     clear_compilation_metrics()
# +     if not torch.allclose
# - any("CompiledFxGraph" in e.name for e in seen.events())
# + get_compilation_metrics()

# %% 19.1: a function past the recompile limit: you say "fine"
# - "CompiledFxGraph"
# + "TorchDynamo Cache Lookup"

# %% 19.1: a call of a disabled function: you say "fine"
# - "CompiledFxGraph"
# + "Torch-Compiled Region"

# %% 19.1: takes long, and doesn't compile: you say "slow"
# -     before = get_compilation_metrics()
# -     for _ in range(3):  # a compile may come now and then
# -         compiled(x)
# -     return "fine" if get_compilation_metrics() == before else "slow"
# +     import time
# +
# +     began = time.process_time()
# +     compiled(x)
# +     return "fine" if time.process_time() - began < 0.02 else "slow"

# %% 19.1: a disabled function, called and compiled in each call: you say "slow"
# -     with profile() as seen:
# -         compiled(x)
# -     if not any("CompiledFxGraph" in e.name for e in seen.events()):
# -         return "silent"
# -     # torch keeps the last 64 records: their number need not grow.
# -     before = get_compilation_metrics()
# -     for _ in range(3):  # a compile may come now and then
# -         compiled(x)
# -     return "fine" if get_compilation_metrics() == before else "slow"
# +     before = get_compilation_metrics()
# +     with profile() as seen:
# +         compiled(x)
# +     if get_compilation_metrics() != before:
# +         return "slow"
# +     graphs = any("CompiledFxGraph" in e.name for e in seen.events())
# +     return "fine" if graphs else "silent"

# %% 19.1: a function whose guard fails in each call: you say "fine"
# -     before = get_compilation_metrics()
# -     for _ in range(3):  # a compile may come now and then
# -         compiled(x)
# -     return "fine" if get_compilation_metrics() == before else "slow"
# +     code = getattr(compiled, "__code__", None)
# +     return "slow" if "reset" in getattr(code, "co_names", ()) else "fine"

# %% 19.1: a function whose guard fails in each third call: you say "fine"
# - range(3)
# + range(2)

# %% 19.1: the other sign: you say "fine", and it is "stale"
# - torch.allclose(compiled(x), eager(x))
# + torch.allclose(compiled(x).square().sum(1), eager(x).square().sum(1))

# %% 19.1: a function of two graphs: you say "silent", and it is "fine"
# - not any("CompiledFxGraph" in e.name for e in seen.events())
# + sum(e.name.startswith("## Call Comp") for e in seen.events()) != 1

# %% 19.1: a sort, which is a library's: you say "silent", and it is "fine"
# - not any("CompiledFxGraph" in e.name for e in seen.events())
# + any(e.name in ("aten::sin", "aten::sort") for e in seen.events())

# %% 19.1: you say "slow", and it is "stale"
# -     if not torch.allclose(compiled(x), eager(x)):
# +     if (compiled(x) - eager(x)).abs().mean() > 1e-3:
