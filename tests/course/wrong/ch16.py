# Wrong answers to the exercises of notebook 16, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch16.py.


# %% 16.1: you found nothing. Was fn compiled anew
# - fx_graph_cache=False
# + fx_graph_cache=True


# %% 16.1: the first backend that is wrong
# - in LADDER:
# + in LADDER[::-1]:


# %% 16.2: bfloat16 that is rounded once: you say 'bug'
# - its <= 5 * own
# + (eager - other).abs().max() < 1e-6


# %% 16.2: the tanh form of gelu: you say 'rounding'
# - its <= 5 * own
# + torch.allclose(eager, other, rtol=0.3, atol=5e-5)


# %% 16.2: the same NaN: you say
# - "equal_nan": True
# + "equal_nan": False
