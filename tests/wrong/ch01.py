# Wrong answers to the exercises of notebook 01, each with what it must be told.


# %% 01.1: an ordinary compiled function: in the second call
def graph_runs(make, *inputs):
    captured = []  # of the second call: captures, not runs

    def backend(graph, example_inputs):
        captured.append(graph)
        return graph

    thing = make(backend)
    thing(*inputs)
    captured.clear()
    thing(*inputs)
    return len(captured)


# %% 01.1: and you counted 2
def graph_runs(make, *inputs):
    ran = []

    def backend(graph, example_inputs):
        def run(*tensors):
            ran.append(graph)
            return graph(*tensors)

        return run

    thing = make(backend)
    thing(*inputs)
    thing(*inputs)
    return len(ran)  # of both calls


# %% 01.1: must return what the graph returns
def graph_runs(make, *inputs):
    ran = []

    def backend(graph, example_inputs):
        def run(*tensors):
            ran.append(graph)
            return [torch.zeros_like(tensor) for tensor in graph(*tensors)]

        return run

    thing = make(backend)
    thing(*inputs)
    ran.clear()
    thing(*inputs)
    return len(ran)


# %% 01.2: where generate calls self.forward(x), 5 steps run 0 graphs
def repaired(cls, backend):
    class Repaired(cls):
        __call__ = torch.compile(cls.__call__, backend=backend)

    return Repaired


# %% 01.2: a deep copy computes with the weights of the original
def repaired(cls, backend):
    class Repaired(cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.forward = torch.compile(self.forward, backend=backend)

    return Repaired


# %% 01.2: 5 steps run 1 graph
def repaired(cls, backend):
    class Repaired(cls):
        generate = torch.compile(cls.generate, backend=backend)

    return Repaired


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
