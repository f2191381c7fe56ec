# Wrong answers to the exercises of notebook 01, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch01.py.


# %% 01.1: an ordinary compiled function: in the second call
# -         return run
# +         ran.append(graph)  # when it is captured, not when it runs
# +         return graph


# %% 01.1: and you counted 2
# -     ran.clear()


# %% 01.1: a first call that runs one more: in the second call, graphs run 1 time
# -     thing(*inputs)  # captures, if anything does
# -     ran.clear()


# %% 01.1: an ordinary compiled function: in the second call, graphs run 1 time
def graph_runs(make, *inputs):
    counters = torch._dynamo.utils.counters["stats"]
    thing = make("eager")
    thing(*inputs)
    before = counters["unique_graphs"]
    thing(*inputs)
    return counters["unique_graphs"] - before  # captures, and not runs


# %% 01.2: it changed the class
# -     class Repaired(cls):
# -         forward = torch.compile(cls.forward, backend=backend)
# +     cls.forward = torch.compile(cls.forward, backend=backend)
# +
# +     class Repaired(cls):
# +         pass


# %% 01.2: in a deep copy, 5 steps run 0 graphs
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def __init__(self, *args, **kwargs):
# +             super().__init__(*args, **kwargs)
# +             self.compile(backend=backend)


# %% 01.2: where generate calls self.forward(x), 5 steps run 0 graphs
# - forward = torch.compile(cls.forward, backend=backend)
# + __call__ = torch.compile(cls.__call__, backend=backend)


# %% 01.2: a deep copy computes with the weights of the original
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def __init__(self, *args, **kwargs):
# +             super().__init__(*args, **kwargs)
# +             self.forward = torch.compile(self.forward, backend=backend)


# %% 01.2: the keys of the checkpoint changed
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def __init__(self, *args, **kwargs):
# +             super().__init__(*args, **kwargs)
# +             self.turn = torch.compile(self.turn, backend=backend)


# %% 01.2: it changed the class
# -     class Repaired(cls):
# -         forward = torch.compile(cls.forward, backend=backend)
# -
# -     return Repaired
# +     cls.forward = torch.compile(cls.forward, backend=backend)
# +     return cls


# %% 01.2: 5 steps run 1 graph
# - forward = torch.compile(cls.forward, backend=backend)
# + generate = torch.compile(cls.generate, backend=backend)


# %% 01.3: some weights are not those of the checkpoint
def load_anywhere(model, state):
    model.load_state_dict(state, strict=False)


# %% 01.3: the checkpoint itself was changed
def load_anywhere(model, state):
    for key in list(state):
        state[key.replace("_orig_mod.", "")] = state.pop(key)
    for key in model.state_dict():
        state[key] = state.pop(key.replace("_orig_mod.", ""))
    model.load_state_dict(state)


# %% 01.3: a checkpoint with a tensor too many was loaded
def load_anywhere(model, state):
    plain = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    names = {key.replace("_orig_mod.", ""): key for key in model.state_dict()}
    model.load_state_dict({key: plain[name] for name, key in names.items()})


# %% 01.3: _orig_mod.
# -         return key.replace("_orig_mod.", "")
# +         return key.removeprefix("_orig_mod.")


# %% 01.3: a checkpoint with a tensor too many was loaded
def load_anywhere(model, state):
    names = zip(model.state_dict(), state.values(), strict=False)  # in order
    model.load_state_dict(dict(names))
