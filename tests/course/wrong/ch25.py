# %% 25.1: with 6 rows still compiles under no_grad
# -     with torch.no_grad():
# -         compiled(general())


# %% 25.1: with 6 rows still compiles in a training step
# -     compiled(general()).sum().backward()
# +     compiled(general())


# %% 25.1: with 6 rows still runs eagerly
# -     compiled(general()).sum().backward()
# +     torch.compiler.set_stance("eager_on_recompile")


# %% 25.1: it leaves gradients in the model
# -     compiled.zero_grad()


# %% 25.1: it leaves gradients switched off
# -     compiled.zero_grad()
# +     compiled.zero_grad()
# +     torch.set_grad_enabled(False)


# %% 25.1: it leaves other weights in the model
# -     compiled.zero_grad()
# +     torch.optim.SGD(compiled.parameters(), lr=0.1).step()
# +     compiled.zero_grad()


# %% 25.1: it leaves other settings in torch._dynamo.config
# -         torch._dynamo.mark_dynamic(x, 0)
# +         torch._dynamo.config.assume_static_by_default = False


# %% 25.1: times, and 3 are enough
def warm(compiled, make, sizes):
    for n in sizes:
        with torch.no_grad():
            compiled(make(n))
        compiled(make(n)).sum().backward()
    compiled.zero_grad()


# %% 25.2: start_warm found 0 of the 2 caches
# - torch.compiler.load_cache_artifacts(data) is None
# + not data


# %% 25.2: starts cold in silence
# - Path(path).write_bytes(data)
# + Path(path).write_bytes(data)
# +     ship.size = len(data)
# - if torch.compiler.load_cache_artifacts(data) is None:
# + torch.compiler.load_cache_artifacts(data)
# +     if len(data) != ship.size:


# %% 25.2: gives other answers
# - return torch.compile(model)
# + compiled = torch.compile(model)
# +     return lambda x: compiled(x) * 0
