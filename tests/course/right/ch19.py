# %% 19.1: a stance that refuses a compile
# -     before = get_compilation_metrics()
# -     for _ in range(3):  # a compile may come now and then
# -         compiled(x)
# -     return "fine" if get_compilation_metrics() == before else "slow"
# +     with torch.compiler.set_stance("fail_on_recompile"):
# +         try:
# +             compiled(x), compiled(x), compiled(x)
# +         except RuntimeError:
# +             return "slow"
# +     return "fine"
