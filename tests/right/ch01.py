# Other right answers to the exercises of notebook 01.


# %% 01.1: the difference of two counts
def graph_runs(make, *inputs):
    import collections

    runs = collections.Counter()

    class Counted:
        def __init__(self, graph):
            self.graph = graph

        def __call__(self, *tensors):
            runs["all"] += 1
            return self.graph(*tensors)

    thing = make(lambda graph, _: Counted(graph))
    thing(*inputs)
    before = runs["all"]
    thing(*inputs)
    return runs["all"] - before


# %% 01.2: a forward that calls a compiled one
def repaired(cls, backend):
    step = torch.compile(cls.forward, backend=backend)

    class Repaired(cls):
        def forward(self, *args, **kwargs):
            return step(self, *args, **kwargs)

    return Repaired


# %% 01.3: unwrap the model, then load by plain keys
def load_anywhere(model, state):
    own = model.state_dict()
    plain = {key.replace("_orig_mod.", ""): tensor for key, tensor in own.items()}
    given = {key.replace("_orig_mod.", ""): tensor for key, tensor in state.items()}
    if plain.keys() != given.keys():
        raise RuntimeError(f"not the same: {plain.keys() ^ given.keys()}")
    with torch.no_grad():
        for key, tensor in plain.items():
            tensor.copy_(given[key])
