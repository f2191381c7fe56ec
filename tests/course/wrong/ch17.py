# Wrong answers to the exercises of notebook 17, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch17.py.


# %% 17.1: a known size, a new one
# - len(seen) - before
# + len(seen)


# %% 17.1: a callback stays behind
# - callback_handler.remove_start_callback(note)
# + pass


# %% 17.2: a function that is silent: you say "fine"
# -     if not any("Torch-Compiled Region" in e.name for e in seen.events()):
# -         return "silent"


# %% 17.2: a function that is fine: you say "slow"
# -     before = len(get_compilation_metrics())
# -     compiled(x)
# +
# -     if not torch.allclose
# +     before = len(get_compilation_metrics())
# +     if not torch.allclose
