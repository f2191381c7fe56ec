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


# %% 01.1: a call that runs one compiled function three times
def graph_runs(make, *inputs):
    captured = []  # of both calls

    def backend(graph, example_inputs):
        captured.append(graph)
        return graph

    thing = make(backend)
    thing(*inputs)
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


# %% 01.1: a model compiled in place: in the second call
def graph_runs(make, *inputs):
    thing = make("eager")
    thing(*inputs)
    wrapped = type(thing).__name__ == "OptimizedModule"
    return int(wrapped or hasattr(thing, "get_compiler_config"))


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


# %% 01.1: a number of runs was asked for
def graph_runs(make, *inputs):
    return hasattr(make("eager"), "compile")


# %% 01.2: where generate calls self.forward(x), 5 steps run 0 graphs
def mended(cls, backend):
    class Mended(cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.compile(backend=backend)

    return Mended


# %% 01.2: a deep copy runs eagerly
def mended(cls, backend):
    class Mended(cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.compile(backend=backend)

        def generate(self, x, steps):
            for _ in range(steps):
                x = self(x)
            return x

    return Mended


# %% 01.2: a deep copy computes with the weights of the original
def mended(cls, backend):
    class Mended(cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.forward = torch.compile(self.forward, backend=backend)

    return Mended


# %% 01.2: 5 steps run 1 graph
def mended(cls, backend):
    class Mended(cls):
        generate = torch.compile(cls.generate, backend=backend)

    return Mended


# %% 01.2: the keys of the checkpoint changed
def mended(cls, backend):
    class Mended(cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.turn = torch.compile(self.turn, backend=backend)

    return Mended


# %% 01.2: it changed the class that it was given
def mended(cls, backend):
    cls.forward = torch.compile(cls.forward, backend=backend)
    return cls


# %% 01.2: it returned no subclass
def mended(cls, backend):
    return torch.compile(cls(), backend=backend)


# %% 01.2: where generate calls self(x), 5 steps run 0 graphs
def mended(cls, backend):
    class Mended(cls):
        pass

    torch.compile(Mended(), backend=backend)
    return Mended


# %% 01.3: into a model compiled as a whole: it raised RuntimeError
def load_anywhere(model, state):
    plain = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    model.load_state_dict(plain)


# %% 01.3: into a model compiled as a whole: some weights
def load_anywhere(model, state):
    model.load_state_dict(state, strict=False)


# %% 01.3: the checkpoint itself was changed
def load_anywhere(model, state):
    for key in list(state):
        state[key.replace("_orig_mod.", "")] = state.pop(key)
    for key in model.state_dict():
        state[key] = state.pop(key.replace("_orig_mod.", ""))
    model.load_state_dict(state)


# %% 01.3: from an eager model into an eager model: some weights
def load_anywhere(model, state):
    pairs = zip(model.state_dict().values(), state.values(), strict=True)
    for own, loaded in pairs:
        if own.shape == loaded.shape:
            own.copy_(loaded)


# %% 01.3: a checkpoint with a missing tensor was loaded
def load_anywhere(model, state):
    plain = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    for key, own in model.state_dict().items():
        own.copy_(plain.get(key.replace("_orig_mod.", ""), own))


# %% 01.3: a checkpoint with a tensor too many was loaded
def load_anywhere(model, state):
    plain = {key.replace("_orig_mod.", ""): value for key, value in state.items()}
    names = {key.replace("_orig_mod.", ""): key for key in model.state_dict()}
    model.load_state_dict({key: plain[name] for name, key in names.items()})
