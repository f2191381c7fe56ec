# Wrong answers to the exercises of notebook 18, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch18.py.


# %% 18.1: you found nothing. Was fn compiled anew
# - fx_graph_cache=False
# + fx_graph_cache=True


# %% 18.1: the first backend that is wrong
# - in LADDER:
# + in LADDER[::-1]:


# %% 18.1: You say aot_eager_decomp_partition, and it is aot_eager
# - in LADDER:
# + in (LADDER[0], *LADDER[2:]):


# %% 18.2: bfloat16 that is rounded once: you say 'bug'
# - its <= 5 * own
# + (eager - other).abs().max() < 1e-6


# %% 18.2: the tanh form of gelu: you say 'rounding'
# - its <= 5 * own
# + torch.allclose(eager, other, rtol=0.3, atol=5e-5)


# %% 18.1: Was fn compiled anew, in spite of what memory
# -         torch.compiler.reset()
# +         pass


# %% 18.1: your answer raised InductorError
# -         try:
# -             with uncached:
# -                 got = torch.compile(fn, backend=backend)(*inputs)
# -         except Exception:
# -             return backend
# +         with uncached:
# +             got = torch.compile(fn, backend=backend)(*inputs)


# %% 18.2: one number off by 8 times as much as any: you say 'rounding'
# - .abs().max()
# + .abs().mean()


# %% 18.2: all numbers off by less than the largest: you say 'bug'
# -     return "rounding" if its <= 5 * own else "bug"
# +     usual, ours = ((t.double() - truth).abs().mean() for t in (eager, other))
# +     near = its <= 5 * own and ours <= 5 * usual
# +     return "rounding" if near else "bug"


# %% 18.2: one number off by 3 times as much as any: you say 'bug'
# - its <= 5 * own
# + its <= own


# %% 18.2: dropout that eager has not: you say 'random'
# - torch.allclose(eager, fn(*inputs), **exact)
# + torch.allclose(other, compiled(*inputs), **exact)


# %% 18.2: the same NaN: you say
# - "equal_nan": True
# + "equal_nan": False


# %% 18.2: bfloat16 with infinities of its own: you say 'bug'
# -     own, its = off(eager), off(other)
# +     own, its = ((t.double() - truth).abs().max() for t in (eager, other))


# %% 18.2: a NaN: you say 'rounding'
# -     own, its = off(eager), off(other)
# +     seen = truth.isfinite() & other.isfinite()
# +     own, its = ((t.double() - truth)[seen].abs().max() for t in (eager, other))


# %% 18.1: planted: none. You say eager: does a call of yours raise?
# - torch.compile(fn, backend=backend)(*inputs)
# + torch.compile(fn, backend=backend)(inputs[0])


# %% 18.2: missing 1 required positional argument
# - t.double() for t in inputs
# + t.double() for t in inputs[:1]


# %% 18.1: you found nothing: what raises is wrong, too
# -         except Exception:
# -             return backend
# +         except Exception:
# +             continue


# %% 18.2: small numbers, all too large: you say 'rounding'
# - its <= 5 * own
# + its <= 5 * own + 1e-6


# %% 18.2: a number for an infinity: you say 'rounding'
# -         return (result.double() - truth).masked_fill(same, 0).abs().max()
# +         far = (result.double() - truth).masked_fill(same, 0).abs()
# +         return far[truth.isfinite()].max()
