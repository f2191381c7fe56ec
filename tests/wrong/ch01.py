# Wrong answers to the exercises of notebook 01, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch01.py.


# %% 01.1: an ordinary compiled function: in the second call
# -         return run
# +         ran.append(graph)  # when it is captured, not when it runs
# +         return graph


# %% 01.1: and you counted 2
# -     ran.clear()


# %% 01.1: must return what the graph returns
# - return graph(*tensors)
# + return [torch.zeros_like(tensor) for tensor in graph(*tensors)]


# %% 01.2: where generate calls self.forward(x), 5 steps run 0 graphs
# - forward = torch.compile(cls.forward, backend=backend)
# + __call__ = torch.compile(cls.__call__, backend=backend)


# %% 01.2: a deep copy computes with the weights of the original
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def __init__(self, *args, **kwargs):
# +             super().__init__(*args, **kwargs)
# +             self.forward = torch.compile(self.forward, backend=backend)


# %% 01.2: 5 steps run 1 graph
# - forward = torch.compile(cls.forward, backend=backend)
# + generate = torch.compile(cls.generate, backend=backend)


# %% 01.3: into a model compiled as a whole: it raised RuntimeError
def load_anywhere(model, state):
    plain = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    model.load_state_dict(plain)


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
