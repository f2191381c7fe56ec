# %% 25.1: with 6 rows still compiles under no_grad
# -     with torch.no_grad():
# -         compiled(general())

# %% 25.1: with 6 rows still compiles in a training step
# -     torch.autograd.grad(loss, list(compiled.parameters()))

# %% 25.1: with 6 rows still runs eagerly
# -     with torch.no_grad():
# -         compiled(general())
# +     for n in range(2, 11):
# +         torch._dynamo.mark_static(x := make(n), 0)
# +         with torch.no_grad():
# +             compiled(x)

# %% 25.1: it leaves the stance as fail_on_recompile
# -     torch.autograd.grad(loss, list(compiled.parameters()))
# +     torch.compiler.set_stance("fail_on_recompile")

# %% 25.1: it leaves other gradients in the model
# -     torch.autograd.grad(loss, list(compiled.parameters()))
# +     loss.backward()
# +     compiled.zero_grad()

# %% 25.1: 'NoneType' object has no attribute 'clone'
# -     loss = compiled(general()).sum()
# -     torch.autograd.grad(loss, list(compiled.parameters()))
# +     old = [w.grad.clone() for w in compiled.parameters()]
# +     compiled(general()).sum().backward()
# +     for w, gradient in zip(compiled.parameters(), old):
# +         w.grad = gradient

# %% 25.1: it leaves other modes in the model
# -     torch.autograd.grad(loss, list(compiled.parameters()))
# +     torch.autograd.grad(loss, list(compiled.parameters()))
# +     compiled.train()

# %% 25.1: it leaves grad mode as False
# -     torch.autograd.grad(loss, list(compiled.parameters()))
# +     torch.autograd.grad(loss, list(compiled.parameters()))
# +     torch.set_grad_enabled(False)

# %% 25.1: it leaves other weights in the model
# - torch.autograd.grad(loss, list(compiled.parameters()))
# + torch.optim.SGD(compiled.parameters(), lr=0.1).step()

# %% 25.1: it leaves torch._dynamo.config.assume_static_by_default = False
# -         torch._dynamo.mark_dynamic(x, 0)
# +         torch._dynamo.config.assume_static_by_default = False
# +         torch._functorch.config.force_non_lazy_backward_lowering = True

# %% 25.1: times, and 3 are enough
def warm(compiled, make, sizes):
    for n in sizes:
        with torch.no_grad():
            compiled(make(n))
        torch.autograd.grad(compiled(make(n)).sum(), list(compiled.parameters()))


# %% 25.2: start_warm found 0 of the 2 caches
# - torch.compiler.load_cache_artifacts(data) is None
# + not data

# %% 25.2: ship leaves more than one file
# - Path(path).write_bytes(data)
# + Path(path).write_bytes(data)
# +     Path(f"{path}.version").write_text(torch.__version__)

# %% 25.2: starts cold in silence
# - if torch.compiler.load_cache_artifacts(data) is None:
# + torch.compiler.load_cache_artifacts(data)
# +     if len(data) < 100:

# %% 25.2: gives other answers
# - return torch.compile(model)
# + compiled = torch.compile(model)
# +     return lambda x: compiled(x) * 0

# %% 25.2: start_warm raises AssertionError
# -     if torch.compiler.load_cache_artifacts(data) is None:
# -         raise ValueError(
# -             "torch does not take this file: the start would be cold"
# -         )
# +     assert torch.compiler.load_cache_artifacts(data), "a cold start"
