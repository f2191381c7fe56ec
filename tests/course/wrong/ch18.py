# %% 18.1: you found nothing. What raises is wrong, too, and fn must be compiled again
# - fx_graph_cache=False
# + fx_graph_cache=True


# %% 18.1: and fn must be compiled again, whatever memory
# -         torch.compiler.reset()
# +         pass


# %% 18.1: raises, and you found nothing. What raises is wrong, too
# -         except Exception:
# -             return backend
# +         except Exception:
# +             continue


# %% 18.1: the first backend that is wrong
# - in LADDER:
# + in LADDER[::-1]:


# %% 18.1: or is the comparison stricter than 1e-3?
# - torch.allclose(got, wanted, rtol=1e-3, atol=1e-3)
# + torch.equal(got, wanted)


# %% 18.1: and you found nothing
# - torch.allclose(got, wanted, rtol=1e-3, atol=1e-3)
# + torch.allclose(got.mean(), wanted.mean(), atol=1e-3)
