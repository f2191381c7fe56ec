# %% 27.1: 1 rows in a thread of the pool still compile
# -     if 1 in lengths:
# -         kinds = [1, *kinds]

# %% 27.1: and 3 would be enough
# -         for n in kinds:
# -             compiled(torch.zeros(n, 8))
# +         for n in kinds:
# +             compiled(torch.zeros(n, 8))
# +     for n in kinds:
# +         compiled(torch.zeros(n, 8))

# %% 27.1: it leaves the stance as eager_on_recompile
def warm(compiled, lengths):
    torch.compiler.set_stance("eager_on_recompile")


# %% 27.1: actual 5. Which sizes did your warm-up show, and in which order?
def warm(compiled, lengths):
    with torch.inference_mode():
        for n in (17, 1):
            compiled(torch.zeros(n, 8))


# %% 27.1: still compile
# -     with torch.inference_mode():
# +     with torch.no_grad():

# %% 27.2: a warm-up that forgot a length should be stopped
# -     forbidden = torch.compiler.set_stance("fail_on_recompile")
# -     try:
# -         with torch.no_grad(), forbidden:
# +     try:
# +         with torch.no_grad():

# %% 27.2: a model whose answers are NaN should be stopped
# -                 if not y.isfinite().all():
# -                     return False

# -                 if not torch.allclose(y, wanted, rtol=0, atol=1e-4):
# +                 if (y - eager(x)).abs().max() > 1e-4:

# %% 27.2: it leaves the stance as fail_on_recompile
# - with torch.no_grad(), forbidden:
# + with torch.no_grad():


# %% 27.2: a model that is eager for one row should be stopped
def ready(compiled, eager, samples, runs):
    before = runs()
    try:
        with torch.no_grad(), torch.compiler.set_stance("fail_on_recompile"):
            for x in samples:
                y = compiled(x)
                if not y.isfinite().all() or not y.allclose(eager(x), atol=1e-4):
                    return False
    except Exception:
        return False
    return runs() >= before + len(samples)


# %% 27.2: your gate says ValueError
# -     except Exception:
# +     except RuntimeError:

# %% 27.2: a model that is infinite, in eager too, should be stopped
# -                 if not y.isfinite().all():
# -                     return False

# %% 27.2: a model that is 0.0002 too low should be stopped
# -                 if not torch.allclose(y, wanted, rtol=0, atol=1e-4):
# +                 if (y - eager(x)).max() > 1e-4:

# %% 27.2: a model that is wrong for five rows should be stopped
# - not torch.allclose(y, wanted, rtol=0, atol=1e-4)
# + abs(y.mean() - eager(x).mean()) > 1e-4

# %% 27.2: a model that raises should be stopped
# - for x in samples:
# + for x in samples[:-1]:


# %% 27.1: would be enough for the lengths [6]
def warm(compiled, lengths):
    with torch.inference_mode():
        for n in (1, 5, 17):
            compiled(torch.zeros(n, 8))


# %% 27.2: a good model that is 0.00009 too low should pass
# - torch.allclose(y, wanted, rtol=0, atol=1e-4)
# + (y - wanted).norm() <= 1.5e-4

# %% 27.2: a good model under eager_on_recompile should pass
# - eager(x)
# + (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)).mean(0)

# %% 27.2: it leaves grad mode as False
# - with torch.no_grad(), forbidden:
# + torch.set_grad_enabled(False)
# +         with forbidden:

# %% 27.1: it leaves the stance as fail_on_recompile
# -             compiled(torch.zeros(n, 8))
# +             compiled(torch.zeros(n, 8))
# +     torch.compiler.set_stance("fail_on_recompile")

# %% 27.2: after a good model under eager_on_recompile, it leaves grad mode as True
# -         with torch.no_grad(), forbidden:
# +         torch.set_grad_enabled(False)
# +         with forbidden:

# -         return False
# -     return True
# +         return False
# +     finally:
# +         torch.set_grad_enabled(True)
# +     return True

# %% 27.2: a model with one score 0.0002 too high should be stopped
# - not torch.allclose(y, wanted, rtol=0, atol=1e-4)
# + abs(y - wanted).mean() > 1e-4

# %% 27.2: a model that gives 999.995 for 1000 should be stopped
# - rtol=0, atol=1e-4
# + atol=1e-4

# %% 27.2: a row of scores where eager has none should be stopped
# - y.shape != wanted.shape
# + y.numel() != wanted.numel()

# %% 27.2: a model that is wrong for one row should be stopped
# - not torch.allclose(y, wanted, rtol=0, atol=1e-4)
# + len(x) > 1 and not torch.allclose(y, wanted, rtol=0, atol=1e-4)

# %% 27.1: 9 rows in a thread of the pool still compile
# - if n > 1][:2]
# + if n > 1][:1]

# %% 27.2: a model whose eager raises should be stopped
# -     try:
# +     for x in samples:
# +         eager(x)
# +     try:

# %% 27.2: a good model in two graphs should pass
# - if runs() == before or
# + if runs() != before + 1 or

# %% 27.2: a model behind another, which forgot no length, should be stopped
# - "fail_on_recompile"
# + "eager_on_recompile"
