# %% 19.1: a stance that refuses a compile
def diagnose(eager, compiled, x):
    from torch.profiler import profile

    if not torch.allclose(compiled(x), eager(x)):
        return "stale"
    with profile() as run:
        compiled(x)
    if not any("CompiledFxGraph" in e.name for e in run.events()):
        return "silent"
    with torch.compiler.set_stance("fail_on_recompile"):
        try:
            compiled(x), compiled(x), compiled(x)
        except RuntimeError:
            return "slow"
    return "fine"
