# Wrong answers to the exercises of notebook 25, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch25.py.


# %% 25.1: 6 rows under no_grad still compile
# -     with torch.no_grad():
# -         compiled(general())


# %% 25.1: a training step with 6 rows still compiles
# -     compiled(general()).sum().backward()


# %% 25.1: it leaves gradients
# -     compiled.zero_grad()


# %% 25.1: 6 rows run eagerly
def warm(compiled, make, sizes):
    torch.compiler.set_stance("force_eager")


# %% 25.1: 3 rows run eagerly
def warm(compiled, make, sizes):
    with torch.no_grad():
        compiled(make(sizes[0]))
    compiled(make(sizes[0])).sum().backward()
    compiled.zero_grad()
    torch.compiler.set_stance("eager_on_recompile")


# %% 25.1: times, and 3 are enough
def warm(compiled, make, sizes):
    for n in sizes:
        with torch.no_grad():
            compiled(make(n))
        compiled(make(n)).sum().backward()
    compiled.zero_grad()


# %% 25.1: a training step with 6 rows still compiles
# -     compiled(general()).sum().backward()
# +     compiled(general())


# %% 25.2: threads that waited for the first call ran one after the other
# -                 if not done.is_set():
# -                     y = compiled(x)
# -                     done.set()
# -                     return y
# +                 y = compiled(x)
# +                 done.set()
# +                 return y


# %% 25.2: threads that waited for the first call ran one after the other
# -                 if not done.is_set():
# -                     y = compiled(x)
# -                     done.set()
# -                     return y
# +                 if done.is_set():
# +                     return compiled(x)
# +                 y = compiled(x)
# +                 done.set()
# +                 return y


# %% 25.2: 4 threads were in it at once
# - with lock:
# + if True:


# %% 25.2: other threads wait for ever
# -             with lock:
# -                 if not done.is_set():
# -                     y = compiled(x)
# -                     done.set()
# -                     return y
# +             lock.acquire()
# +             y = compiled(x)
# +             done.set()
# +             lock.release()
# +             return y


# %% 25.2: calls still wait for each other
# -         if not done.is_set():
# -             with lock:
# -                 if not done.is_set():
# +         if True:
# +             with lock:
# +                 if True:


# %% 25.2: one at a time, also after an error
# -                     y = compiled(x)
# -                     done.set()
# +                     done.set()
# +                     y = compiled(x)


# %% 25.2: a call with 5 in place of 1 got 2
# -                     y = compiled(x)
# -                     done.set()
# -                     return y
# -         return compiled(x)
# +                     call.kept = compiled(x)
# +                     done.set()
# +         return call.kept


# %% 25.1: it leaves the model in eval()
# -     with torch.no_grad():
# +     compiled.eval()
# +     with torch.no_grad():


# %% 25.1: gradients of zeros
# -     compiled.zero_grad()
# +     compiled.zero_grad(set_to_none=False)


# %% 25.1: gradients switched off
# -     compiled.zero_grad()
# +     compiled.zero_grad()
# +     torch.set_grad_enabled(False)


# %% 25.2: a call still takes a lock
# -         if not done.is_set():
# -             with lock:
# -                 if not done.is_set():
# -                     y = compiled(x)
# -                     done.set()
# -                     return y
# +         with lock:
# +             if not done.is_set():
# +                 y = compiled(x)
# +                 done.set()
# +                 return y
